"""Query of the rows that a Dimension lookup / update writes: new and changed versions.

Kettle finds the version of a row at its time, and compares its values. A change of a field of type
Insert starts a version and ends the one before. Fields of type Update change this version, those of
type Punch through all versions of the key. Source: Kettle, DimensionLookup.lookupValues, dimInsert,
dimUpdate, dimPunchThrough.
"""

from logdriven_dagster.plugins.importers.drafts import UntranslatableError
from logdriven_dagster.plugins.importers.kettle.comparisons import (
    are_equal,
    empty_as_null,
    literal,
    quote,
)
from logdriven_dagster.plugins.importers.kettle.lookups import (
    LookupRules,
    date_of_version,
    fold_text,
    match_rows,
)
from logdriven_dagster.plugins.importers.kettle.outputs.models import Dimension, Output

_IS_FOUND = "_v.v0 = _found.v0"
"""Condition of the version that a row found; `v0` is the technical key."""


def select_versions(output: Output, rows: str, own: str, *, kind: str, ignores_case: bool) -> str:
    """Return the query of the new and changed rows of a dimension.

    A window fails if a key has several rows, since Kettle takes them one after the other, or if its
    time lies in none or in several versions, or, for a new version, in an earlier one.

    Args:
        output: An output with a dimension.
        rows: The relation of the rows that it gets.
        own: The relation of its table's rows.
        kind: Kettle's type of the database.
        ignores_case: True if the database may compare texts without case.
    """
    assert output.dimension is not None
    changes = _Changes(output, output.dimension, kind)
    found = changes.find(rows, own, ignores_case=ignores_case)
    return changes.select(found, own)


def insert_unknown(rules: Dimension, table: str, kind: str) -> str:
    """Return the statement that adds the row for unknown keys, unless the table has it.

    `kind` is Kettle's type of the database. Source: Kettle, DimensionLookup.checkDimZero.
    """
    key = 0 if rules.is_numbered else find_unknown_key(rules.technical_key, kind)
    dual = " FROM DUAL" if kind in (*_OF_MYSQL, "ORACLE") else ""
    return (
        f"INSERT INTO {table} ({rules.technical_key}, {rules.version}) SELECT {key}, 1{dual} "
        f"WHERE NOT EXISTS (SELECT 1 FROM {table} WHERE {rules.technical_key} = {key})"
    )


def find_unknown_key(name: str, kind: str) -> int:
    """Return the technical key of unknown rows, if the database numbers the others.

    Raises UntranslatableError for types of databases whose number is not known.
    """
    if kind in _UNKNOWN_KEYS:
        return _UNKNOWN_KEYS[kind]
    raise UntranslatableError(
        f"{name}: {kind} numbers its technical key, and the key of its unknown row is not known; "
        "let Kettle number it (table maximum + 1)"
    )


_OF_MYSQL = ("MYSQL", "MARIADB")
_UNKNOWN_KEYS = {"POSTGRESQL": 0, "SQLITE": 0, **dict.fromkeys(_OF_MYSQL, 1)}


class _Changes:
    """Parts of the query: `_found` is the version of a row, `_v` each one, NULL for a new one."""

    def __init__(self, output: Output, rules: Dimension, kind: str) -> None:
        self._output, self._rules = output, rules
        # Times of Kettle have milliseconds, which a DATETIME of MySQL does not store.
        is_whole = kind in _OF_MYSQL
        self._now = f"date_trunc('{'SECOND' if is_whole else 'MILLISECOND'}', current_timestamp())"
        self._last = f"{rules.last_year:04}-12-31 23:59:59{'' if is_whole else '.999'}"
        self._fields = {column: field for field, column in output.fields}

    def _value(self, version: str, column: str) -> str:
        """Return a column of a version."""
        return f"{version}.v{self._output.own_columns.index(column)}"

    def _fail(self, problem: str) -> str:
        return f"raise_error({literal(f'{self._output.step}: {problem}')})"

    def find(self, rows: str, own: str, *, ignores_case: bool) -> str:
        """Return the query of the rows with all versions of their key, and the one they found."""
        output, rules = self._output, self._rules
        keys = [(self._fields[column], column) for column in output.lookup_key]
        folded = ", ".join(
            f"IF(typeof({quote(field)}) = 'string', {fold_text(quote(field), field)}, "
            f"CAST({quote(field)} AS STRING))"
            if ignores_case
            else quote(field)
            for field, _ in keys
        )
        required = {field for field, _ in keys}
        fields = ", ".join(
            f"{self._require(field)} AS {quote(field)}" if field in required else quote(field)
            for field in dict.fromkeys(field for field, _ in output.fields)
        )
        several = self._fail("several rows have one key, and Kettle takes them one by one")
        time = date_of_version(output.step, rules.date, self._now)
        distinct = f"SELECT DISTINCT {fields}, {time} AS _at\nFROM {rows}"
        counted = f"SELECT *, count(*) OVER (PARTITION BY {folded}) AS _copies FROM ({distinct})"
        lookup = LookupRules(finds_null=False, ignores_case=ignores_case, all_rows=True)
        join = match_rows(output.step, own, keys, output.own_columns, lookup)
        start, end = (self._value("x", each) for each in (rules.date_from, rules.date_to))
        valid = f"filter(l.r, x -> s._at >= {start} AND s._at < {end})"
        joined = (
            "SELECT s.*, coalesce(l.r, array()) AS _versions,\n"
            f"coalesce({valid}, array()) AS _valid, CAST(NULL AS STRING) AS _window_start\n"
            f"FROM ({counted}) AS s\nLEFT JOIN {join}"
        )
        none = self._fail("the time of a row lies in no version of its key")
        both = self._fail("the time of a row lies in several versions of its key")
        return (
            f"SELECT *, CASE WHEN _copies > 1 THEN {several} WHEN size(_valid) > 1 THEN {both}\n"
            f"WHEN size(_valid) = 0 AND size(_versions) > 0 THEN {none} ELSE get(_valid, 0) END AS "
            f"_found\nFROM ({joined})"
        )

    def _require(self, field: str) -> str:
        null = self._fail(f"{field} is NULL, for which Kettle adds a row in each run")
        return f"IF({empty_as_null(quote(field))} IS NULL, {null}, {quote(field)})"

    def select(self, found: str, own: str) -> str:
        """Return the query of the rows to write, from the rows that `find` selects."""
        rules = self._rules
        version, own_version = (self._value(each, rules.version) for each in ("x", "_found"))
        later = f"size(filter(_versions, x -> {version} >= {own_version})) > 1"
        earlier = self._fail("the time of a change lies in an earlier version of its key")
        inserts = self._differs("insert")
        # The first window has no _window_start in the table, and finds the NULL of its own rows.
        newer = (
            f"EXISTS (SELECT 1 FROM {own} WHERE CAST(_window_start AS TIMESTAMP) > "
            ":data_range_start)"
        )
        rerun = self._fail(
            "a newer window has changed the table, whose versions an older one cannot end; run "
            "the newest window"
        )
        flags = (
            f"SELECT *, _found IS NULL AS _is_first, CASE WHEN NOT ({inserts}) THEN false "
            f"WHEN {later} THEN {earlier} WHEN {newer} THEN {rerun} ELSE true END AS _inserts,\n"
            f"{self._differs('insert', 'update', 'punch through')} AS _differs,\n"
            f"{self._differs('punch through')} AS _punches\nFROM ({found})"
        )
        changed = f"_punches OR ({_IS_FOUND} AND _differs)"
        every = (
            "SELECT * FROM (SELECT *, explode(concat(_versions, array(NULL))) AS _v\n"
            f"FROM ({flags}))\nWHERE IF(_v IS NULL, _is_first OR _inserts, {changed})"
        )
        columns = ",\n  ".join(
            f"{value} AS {quote(column)}" for column, value in self._list_values(own).items()
        )
        return f"SELECT {columns}\nFROM ({every})"

    def _differs(self, *types: str) -> str:
        """Return True if a field of the types differs from the version that was found."""
        different = [
            f"NOT {are_equal(quote(self._fields[column]), self._value('_found', column))}"
            for column, update in self._rules.updates.items()
            if update in types
        ]
        return f"(_found IS NOT NULL AND ({' OR '.join(different) or 'false'}))"

    def _list_values(self, own: str) -> dict[str, str]:
        """Return the value of each column that is written."""
        rules = self._rules
        values = {}
        if rules.is_numbered:
            last = f"coalesce((SELECT max({quote(rules.technical_key)}) FROM {own}), 0)"
            order = ", ".join(quote(self._fields[column]) for column in self._output.lookup_key)
            number = f"{last} + row_number() OVER (PARTITION BY _v IS NULL ORDER BY {order})"
            values[rules.technical_key] = f"IF(_v IS NULL, {number}, _v.v0)"
        number = f"coalesce({self._value('_found', rules.version)}, 0) + 1"
        values[rules.version] = f"IF(_v IS NULL, {number}, {self._value('_v', rules.version)})"
        first = f"TIMESTAMP'{rules.first_year:04}-01-01 00:00:00'"
        start = "_at" if rules.starts_now else f"IF(_is_first, {first}, _at)"
        values[rules.date_from] = f"IF(_v IS NULL, {start}, {self._value('_v', rules.date_from)})"
        values[rules.date_to] = (
            f"CASE WHEN _v IS NULL THEN TIMESTAMP'{self._last}' "
            f"WHEN _inserts AND {_IS_FOUND} THEN _at ELSE {self._value('_v', rules.date_to)} END"
        )
        for field, column in self._output.fields:
            new = {
                None: "_v IS NULL",
                "insert": f"_v IS NULL OR ({_IS_FOUND} AND NOT _inserts)",
                "update": f"_v IS NULL OR ({_IS_FOUND} AND NOT _inserts)",
                "punch through": f"_v IS NULL OR _punches OR ({_IS_FOUND} AND NOT _inserts)",
            }[rules.updates.get(column)]
            values[column] = f"IF({new}, {quote(field)}, {self._value('_v', column)})"
        return values | {column: self._stamp(column) for column in rules.stamps}

    def _stamp(self, column: str) -> str:
        """Return the value of a column that Kettle fills itself."""
        old, kind = self._value("_v", column), self._rules.stamps[column]
        if kind == "lastversion":
            problem = self._fail(f"{column} is not a boolean; write it in SQL")
            checked = f"IF(typeof({old}) = 'boolean', {old}, {problem})"
            value = f"CASE WHEN _v IS NULL THEN true WHEN _inserts AND {_IS_FOUND} THEN false "
            return f"{value}ELSE {checked} END"
        new = self._now if kind != "dateupdated" else f"IF(_punches, {self._now}, NULL)"
        if kind == "dateinserted":
            return f"IF(_v IS NULL, {new}, {old})"
        changed = f"WHEN _punches OR _inserts THEN {self._now} ELSE _at END"
        return f"CASE WHEN _v IS NULL THEN {new} {changed}"
