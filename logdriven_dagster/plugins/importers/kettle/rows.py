"""Row steps of a transformation as queries: each reads the steps before it by name.

Only steps whose meaning does not depend on the order of rows or on unknown types are translated.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, TypeAlias

from logdriven_dagster.plugins.importers.drafts import UntranslatableError
from logdriven_dagster.plugins.importers.kettle.calculations import (
    COMPUTING,
    compute_fields,
    list_computed,
)
from logdriven_dagster.plugins.importers.kettle.comparisons import (
    are_equal,
    are_of_one_type,
    as_number,
    as_text,
    condition_of,
    empty_as_null,
    literal,
    quote,
    without_case,
)
from logdriven_dagster.plugins.importers.kettle.hops import read_text
from logdriven_dagster.plugins.importers.kettle.lookups import LookupRules, join_lookup

if TYPE_CHECKING:
    from xml.etree.ElementTree import Element

_CONSTANTS = {"String": "STRING", "Integer": "BIGINT", "Number": "DOUBLE", "Boolean": "BOOLEAN"}
_JOINS = {"INNER": "JOIN", "LEFT OUTER": "LEFT JOIN", "RIGHT OUTER": "RIGHT JOIN"}
_JOINS |= {"FULL OUTER": "FULL JOIN"}
_AGGREGATES = {
    "COUNT_ALL": "count({})",
    "COUNT_ANY": "count(*)",
    "COUNT_DISTINCT": "count(DISTINCT {})",
}
_AGGREGATES |= {"MIN": "min({})", "MAX": "max({})", "SUM": "sum({})"}
_OF_TEXTS = {"COUNT_ALL", "COUNT_DISTINCT", "MIN", "MAX"}


_KeyOrder: TypeAlias = Literal["exact", "without case", "unknown"]
"""Order and equality of texts in a step: by their characters, without case, or in its own way."""


@dataclass(frozen=True, slots=True)
class Lookup:
    """A query of a database that a row step needs, as a step of its own."""

    step: str
    connection: str
    schema: str
    table: str
    columns: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class RowStep:
    """A row step: the names of the steps that it reads, and its element."""

    name: str
    kind: str
    element: "Element"
    sources: tuple[str, ...]

    @property
    def lookup(self) -> Lookup | None:
        """The table that a Database lookup reads."""
        if self.kind != "DBLookup":
            return None
        keys = [read_text(key, "field") for key in self.element.iterfind("lookup/key")]
        values = [read_text(value, "name") for value in self.element.iterfind("lookup/value")]
        return Lookup(
            step=f"{self.name} table",
            connection=read_text(self.element, "connection"),
            schema=read_text(self.element, "lookup/schema"),
            table=read_text(self.element, "lookup/table"),
            columns=tuple(dict.fromkeys([*keys, *values])),
        )


@dataclass(frozen=True, slots=True)
class Reading:
    """Relations, orders and fields that a query of a row step reads."""

    relations: Mapping[str, str]
    """Text after FROM for each step of Kettle that is read."""
    orders: Mapping[str, Sequence[tuple[str, bool]] | None] = field(default_factory=dict)
    """Fields by which the query of a Table input orders its rows, and True for descending ones.

    None stands for an order by expressions.
    """
    ignores_case: bool = False
    """True if the database of a lookup compares texts without case."""
    columns: Mapping[str, Sequence[str] | None] = field(default_factory=dict)
    """The fields of each step that is read; None if they are not known."""

    def rename(self, source: str, names: Sequence[str]) -> list[str]:
        """Return the names of added fields: Kettle calls a second `name` `name_1`."""
        taken = {each.lower() for each in self.columns.get(source) or ()}
        found = []
        for name in names:
            free, number = name, 0
            while free.lower() in taken:
                number += 1
                free = f"{name}_{number}"
            taken.add(free.lower())
            found.append(free)
        return found

    def get_relation(self, name: str) -> str:
        """Return the text after FROM for a step."""
        return self.relations[name]


def restricts(step: RowStep) -> bool:
    """Return True if a step sends only some of its rows to a consumer."""
    return step.kind in ("FilterRows", "SwitchCase")


def restrict(step: RowStep, consumer: str) -> str | None:
    """Return the condition of the rows that a step sends to a consumer; None if it sends all."""
    if step.kind == "FilterRows":
        return _filter(step, consumer)
    if step.kind == "SwitchCase":
        return _switch(step, consumer)
    return None


def refuse_first_rows(step: RowStep) -> None:
    """Raise UntranslatableError for a sort that keeps the first row of each key."""
    if step.kind == "SortRows" and read_text(step.element, "unique_rows").upper() == "Y":
        raise UntranslatableError(
            f"{step.name}: it keeps the first row of each key, which depends on their order; "
            "write row_number() in SQL"
        )


def refuse_sorted_comparisons(step: RowStep, by_name: Mapping[str, RowStep]) -> None:
    """Raise UntranslatableError if a sort before a step changes what the step compares.

    Sort rows marks its fields, so that all later steps compare their texts without case, and in
    falling order. Source: Kettle, SortRowsMeta.assignSortingCriteria, ValueMetaBase.compare.
    """
    loose, falling = _find_marked(step, by_name)
    for name, function, is_text in _list_compared(step):
        if (is_text and name in loose) or (function not in ("=", "<>") and name in falling):
            raise UntranslatableError(
                f"{step.name}: a sort before it changes how Kettle compares {name}; compare it "
                "before the sort, or in SQL"
            )


def _find_marked(step: RowStep, by_name: Mapping[str, RowStep]) -> tuple[set[str], set[str]]:
    """Return the fields that sorts before a step have marked: without case, and falling."""
    loose, falling, renames = set[str](), set[str](), dict[str, str]()
    waiting, seen = list(step.sources), set[str]()
    while waiting:
        name = waiting.pop()
        if name in seen or name not in by_name:
            continue
        seen.add(name)
        before = by_name[name]
        waiting += before.sources
        for each in (
            *before.element.findall("fields/field"),
            *before.element.findall("fields/meta"),
        ):
            field = read_text(each, "name").lower()
            if before.kind == "SelectValues" and read_text(each, "rename"):
                renames[field] = read_text(each, "rename").lower()
            if before.kind == "SortRows" and _order_of(each) != "exact":
                loose.add(field)
            if before.kind == "SortRows" and read_text(each, "ascending").upper() != "Y":
                falling.add(field)
    for _ in renames:
        for marked in (loose, falling):
            marked |= {new for old, new in renames.items() if old in marked}
    return (
        {*loose, *(f"{each}_1" for each in loose)},
        {*falling, *(f"{each}_1" for each in falling)},
    )


def _list_compared(step: RowStep) -> Iterator[tuple[str, str, bool]]:
    """Yield the compared fields of a step, with the function, and True if they may be texts."""
    if step.kind == "FilterRows":
        for each in step.element.iter("condition"):
            function, right = read_text(each, "function"), read_text(each, "rightvalue")
            if function not in ("=", "<>", "<", "<=", ">", ">="):
                continue
            is_text = bool(right) or read_text(each, "value/type") == "String"
            for name in filter(None, (read_text(each, "leftvalue"), right)):
                yield name.lower(), function, is_text
    if step.kind in ("GroupBy", "MemoryGroupBy"):
        for each in step.element.iterfind("fields/field"):
            if read_text(each, "type").upper() in ("MIN", "MAX"):
                yield read_text(each, "subject").lower(), "=", True  # Kettle heeds the order there


def _filter(step: RowStep, consumer: str) -> str:
    element = step.element
    condition = element.find("compare/condition")
    if condition is None:
        raise UntranslatableError(f"{step.name}: it has no condition")
    found = condition_of(condition, step.name)
    met = read_text(element, "send_true_to").lower()
    unmet = read_text(element, "send_false_to").lower()
    if met == unmet and met:
        raise UntranslatableError(f"{step.name}: it sends all rows to {met}")
    if consumer.lower() == met or (not met and not unmet):
        return found
    if consumer.lower() == unmet:
        return f"NOT {found}"
    raise UntranslatableError(f"{step.name}: it sends no rows to {consumer}")


def _switch(step: RowStep, consumer: str) -> str:
    element, column = step.element, as_text(quote(read_text(step.element, "fieldname")))
    if read_text(element, "use_contains").upper() == "Y":
        raise UntranslatableError(f"{step.name}: it compares parts of texts; use Filter rows")
    if read_text(element, "case_value_type") not in ("String", ""):
        raise UntranslatableError(f"{step.name}: its cases are not texts; use Filter rows")
    cases = [
        (each.findtext("value") or "", read_text(each, "target_step").lower())
        for each in element.iterfind("cases/case")
    ]

    def meets(text: str) -> str:
        return f"{column} <=> {literal(text)}" if text else f"{column} IS NULL"

    conditions = [meets(text) for text, target in cases if target == consumer.lower()]
    if read_text(element, "default_target_step").lower() == consumer.lower():
        others = " OR ".join(meets(text) for text, _ in cases) or "false"
        conditions.append(f"NOT ({others})")
    if not conditions:
        raise UntranslatableError(f"{step.name}: it sends no rows to {consumer}")
    return " OR ".join(conditions)


def _one(step: RowStep, reading: Reading) -> str:
    return reading.get_relation(step.sources[0])


def _select(step: RowStep, reading: Reading, _: Mapping[str, RowStep]) -> str:
    fields = step.element.findall("fields/field")
    removed = [read_text(each, "name") for each in step.element.iterfind("fields/remove")]
    for each in step.element.iterfind("fields/meta"):
        kind = read_text(each, "type")
        if kind not in ("", "None") or read_text(each, "conversion_mask"):
            raise UntranslatableError(
                f"{step.name}: it converts {read_text(each, 'name')} to {kind or 'a text'}; "
                "write CAST in SQL"
            )
    if sized := [
        read_text(each, "name")
        for each in [*fields, *step.element.findall("fields/meta")]
        if read_text(each, "length") not in ("", "-1", "-2")
    ]:
        raise UntranslatableError(f"{step.name}: it sets the length of {', '.join(sized)}")
    renamed = [
        (read_text(each, "name"), read_text(each, "rename") or read_text(each, "name"))
        for each in step.element.iterfind("fields/meta")
    ]
    query = _project(step, reading, fields)
    if removed:
        query = f"SELECT * EXCEPT ({', '.join(map(quote, removed))}) FROM ({query})"
    if changed := [(old, new) for old, new in renamed if old.lower() != new.lower()]:
        names = ", ".join(quote(old) for old, _ in changed)
        added = ", ".join(f"{quote(old)} AS {quote(new)}" for old, new in changed)
        query = f"SELECT * EXCEPT ({names}), {added} FROM ({query})"
    return query


def _project(step: RowStep, reading: Reading, fields: "Sequence[Element]") -> str:
    source = _one(step, reading)
    if not fields:
        return f"SELECT * FROM {source}"
    pairs = [(read_text(e, "name"), read_text(e, "rename") or read_text(e, "name")) for e in fields]
    columns = ", ".join(
        quote(old) if old == new else f"{quote(old)} AS {quote(new)}" for old, new in pairs
    )
    if read_text(step.element, "fields/select_unspecified").upper() == "Y":
        names = ", ".join(dict.fromkeys(quote(old) for old, _ in pairs))
        columns += f", * EXCEPT ({names})"
    return f"SELECT {columns} FROM {source}"


def _constant(step: RowStep, reading: Reading, _: Mapping[str, RowStep]) -> str:
    columns = []
    for each in step.element.iterfind("fields/field"):
        name, kind = read_text(each, "name"), read_text(each, "type")
        text = each.findtext("nullif") or ""
        if kind not in _CONSTANTS or (kind == "Number" and not re.fullmatch(r"-?[0-9.]*", text)):
            raise UntranslatableError(
                f"{step.name}: the constant {name} of type {kind} depends on its format; write it "
                "in SQL"
            )
        if kind == "Boolean" and text:
            value = "true" if text.upper() in ("Y", "TRUE") else "false"
        elif text:
            value = literal(text)
        else:
            value = "NULL"  # Kettle writes empty texts as NULL
        if name:
            (new,) = reading.rename(step.sources[0], [name])
            columns.append(f"CAST({value} AS {_CONSTANTS[kind]}) AS {quote(new)}")
    return f"SELECT *, {', '.join(columns)} FROM {_one(step, reading)}"


def _map_values(step: RowStep, reading: Reading, _: Mapping[str, RowStep]) -> str:
    name = read_text(step.element, "field_to_use")
    new, default = (
        read_text(step.element, "target_field"),
        step.element.findtext("non_match_default"),
    )
    text = as_text(quote(name))
    cases = []
    for each in step.element.iterfind("fields/field"):
        old, value = each.findtext("source_value") or "", each.findtext("target_value") or ""
        if not old and not value:
            raise UntranslatableError(f"{step.name}: it maps an empty value to an empty value")
        met = f"{text} = {literal(old)}" if old else f"{text} IS NULL"
        cases.append((old, f"WHEN {met} THEN {literal(value) if value else 'NULL'}"))
    if len({old for old, _ in cases}) < len(cases):
        raise UntranslatableError(f"{step.name}: it maps a value twice")
    found = " ".join(case for _, case in cases)
    # The default is not for NULL: only an empty source value maps it.
    if default:
        found += f" WHEN {text} IS NOT NULL THEN {literal(default)}"
    otherwise = "NULL" if new else text
    value = f"CASE {found} ELSE {otherwise} END"
    if new:
        (new,) = reading.rename(step.sources[0], [new])
        return f"SELECT *, {value} AS {quote(new)} FROM {_one(step, reading)}"
    return f"SELECT * EXCEPT ({quote(name)}), {value} AS {quote(name)} FROM {_one(step, reading)}"


def _look_up_table(step: RowStep, reading: Reading, _: Mapping[str, RowStep]) -> str:
    """Return the query of a Database lookup: the first matching row, or defaults.

    Which of several rows is first is not known, so that other values fail.
    """
    element, lookup = step.element, step.lookup
    assert lookup is not None
    keys = []
    for each in element.iterfind("lookup/key"):
        if read_text(each, "condition") != "=" or read_text(each, "name2"):
            raise UntranslatableError(
                f"{step.name}: it compares by {read_text(each, 'condition')}; write a join in SQL"
            )
        keys.append((read_text(each, "name"), read_text(each, "field")))
    only_one = read_text(element, "lookup/fail_on_multiple").upper() == "Y"
    if read_text(element, "lookup/orderby") and not only_one:
        raise UntranslatableError(f"{step.name}: it takes the first row of an order; use SQL")
    finds_null = all(
        read_text(element, flag).upper() == "Y" for flag in ("cache", "cache_load_all")
    )
    inner = read_text(element, "lookup/eat_row_on_failure").upper() == "Y"
    values = _read_values(step, reading, step.sources[0])
    return join_lookup(
        step.name,
        (_one(step, reading), reading.get_relation(lookup.step)),
        keys,
        values,
        LookupRules(finds_null, inner, only_one, reading.ignores_case),
    )


def _look_up_stream(step: RowStep, reading: Reading, _: Mapping[str, RowStep]) -> str:
    """Return the query of a Stream lookup: NULL finds NULL, and the last of several rows counts.

    Which of several rows is last is not known, so that other values fail.
    """
    origin = read_text(step.element, "from").lower()
    others = [each for each in step.sources if each.lower() != origin]
    found = [each for each in step.sources if each.lower() == origin]
    if len(others) != 1 or len(found) != 1:
        raise UntranslatableError(f"{step.name}: it must have one source and one lookup step")
    keys = [
        (read_text(each, "name"), read_text(each, "field"))
        for each in step.element.iterfind("lookup/key")
    ]
    is_sorted = read_text(step.element, "sorted_list").upper() == "Y"
    rules = LookupRules(finds_null=True, inner=False, empty_is_null=is_sorted)
    sources = (reading.get_relation(others[0]), reading.get_relation(found[0]))
    values = _read_values(step, reading, others[0])
    return join_lookup(step.name, sources, keys, values, rules)


def _read_values(step: RowStep, reading: Reading, source: str) -> list[tuple[str, str, str]]:
    """Return name, new name and default of each value that a lookup adds to a source."""
    values = step.element.findall("lookup/value")
    new = [read_text(each, "rename") or read_text(each, "name") for each in values]
    return [
        (read_text(each, "name"), name, read_text(each, "default"))
        for each, name in zip(values, reading.rename(source, new), strict=True)
    ]


def _merge(step: RowStep, reading: Reading, by_name: Mapping[str, RowStep]) -> str:
    """Return the query of a Merge join: NULL is equal to NULL.

    Raises UntranslatableError unless both sources are sorted by the keys, which Kettle requires.
    """
    element = step.element
    join = _JOINS.get(read_text(element, "join_type").upper())
    ends = [read_text(element, name).lower() for name in ("step1", "step2")]
    found = {each.lower(): each for each in step.sources}
    if join is None or len(step.sources) != 2 or set(ends) != set(found):
        raise UntranslatableError(f"{step.name}: it must join two steps")
    keys = [
        [(key.text or "").strip() for key in element.iterfind(f"{name}/key")]
        for name in ("keys_1", "keys_2")
    ]
    if not keys[0] or len(keys[0]) != len(keys[1]):
        raise UntranslatableError(f"{step.name}: it has no keys")
    sides = []
    for alias, end, own in zip("lr", ends, keys, strict=True):
        orders = _refuse_unsorted(step, found[end], own, reading, by_name)
        columns = [f"{alias}.{quote(key)}" for key in own]
        sides.append(list(zip(columns, orders, strict=True)))
    conditions = " AND ".join(_joined(*pair) for pair in zip(*sides, strict=True))
    right = _right_fields(found[ends[0]], found[ends[1]], keys, reading)
    left, other = reading.get_relation(found[ends[0]]), reading.get_relation(found[ends[1]])
    return f"SELECT l.*, {right}\nFROM {left} AS l\n{join} {other} AS r ON {conditions}"


def _list_joined(step: RowStep, reading: Reading) -> list[str] | None:
    left, right = (read_text(step.element, name).lower() for name in ("step1", "step2"))
    found = {each.lower(): each for each in step.sources}
    first, second = (reading.columns.get(found.get(each, "")) for each in (left, right))
    if first is None or second is None:
        return None
    return [*first, *reading.rename(found[left], second)]


def _joined(left: tuple[str, _KeyOrder], right: tuple[str, _KeyOrder]) -> str:
    """Return True where two keys are equal: without case if both sides are sorted so."""
    columns, orders = zip(left, right, strict=True)
    if set(orders) != {"without case"}:
        return are_equal(*(_sorted_key(*each) for each in (left, right)))
    a, b = (without_case(empty_as_null(column)) for column in columns)
    return are_of_one_type(*columns, f"{a} <=> {b}")


def _right_fields(left: str, right: str, keys: Sequence[Sequence[str]], reading: Reading) -> str:
    """Return the fields of the second source, with names that the first one does not have."""
    known = reading.columns.get(right)
    if known is not None and reading.columns.get(left) is not None:
        pairs = zip(known, reading.rename(left, known), strict=True)
        return ", ".join(f"r.{quote(old)} AS {quote(new)}" for old, new in pairs)
    both = [b for a, b in zip(*keys, strict=True) if a.lower() == b.lower()]
    if not both:
        return "r.*"
    again = ", ".join(f"r.{quote(key)} AS {quote(key + '_1')}" for key in both)
    return f"r.* EXCEPT ({', '.join(map(quote, both))}), {again}"


def list_fields(step: RowStep, reading: Reading) -> list[str] | None:
    """Return the fields of the rows of a step; None if they are not known."""
    element, source = step.element, step.sources[0]
    if step.kind == "StreamLookup":
        looked = read_text(element, "from").lower()
        source = next((each for each in step.sources if each.lower() != looked), source)
    before = reading.columns.get(source)
    if step.kind == "SelectValues":
        return _list_selected(step)
    if step.kind in ("GroupBy", "MemoryGroupBy"):
        names = [read_text(each, "name") for each in element.iterfind("group/field")]
        return names + [read_text(each, "aggregate") for each in element.iterfind("fields/field")]
    if before is None:
        return None
    if step.kind == "MergeJoin":
        return _list_joined(step, reading)
    added: list[str] = []
    if step.kind in COMPUTING:
        added, removed = list_computed(step.kind, element)
        gone = {each.lower() for each in removed}
        return [each for each in before if each.lower() not in gone] + added
    if step.kind == "Constant":
        added = [read_text(each, "name") for each in element.iterfind("fields/field")]
    elif step.kind in ("DBLookup", "StreamLookup"):
        added = [name for _, name, _ in _read_values(step, reading, source)]
    elif name := read_text(element, "target_field") or read_text(element, "valuename"):
        added = [name]
    return [*before, *reading.rename(source, [name for name in added if name])]


def _sorted_key(column: str, order: _KeyOrder) -> str:
    """Return a key; one that Kettle does not compare as it is sorted fails for texts."""
    if order == "exact":
        return column
    problem = f"{column.replace('`', '')} is a text whose order Kettle does not know; sort it there"
    return f"IF(typeof({column}) = 'string', raise_error({literal(problem)}), {column})"


def _refuse_unsorted(
    step: RowStep,
    source: str,
    keys: Sequence[str],
    reading: Reading,
    by_name: Mapping[str, RowStep],
) -> list[_KeyOrder]:
    """Return the order of a source by each key. Raises UntranslatableError if it is not sorted."""
    wanted = [key.lower() for key in keys]
    before = by_name.get(source)
    while before is not None and before.kind in ("Dummy", "WriteToLog"):
        source = before.sources[0]
        before = by_name.get(source)
    if before is not None and before.kind == "SortRows":
        fields = before.element.findall("fields/field")
        own = [read_text(each, "name").lower() for each in fields]
        rising = all(read_text(each, "ascending").upper() == "Y" for each in fields[: len(own)])
        if own[: len(wanted)] == wanted and rising:
            return [_order_of(each) for each in fields[: len(wanted)]]
    elif (reading.orders.get(source) or [])[: len(wanted)] == [(key, False) for key in wanted]:
        return ["unknown"] * len(wanted)
    raise UntranslatableError(
        f"{step.name}: {source} is not sorted by {', '.join(keys)}, so that the result of Kettle "
        "depends on the order of its rows; sort it there, or write it in SQL"
    )


def _order_of(field: "Element") -> _KeyOrder:
    """Return the order by a field of Sort rows, which following steps compare in the same way."""
    if read_text(field, "collator_enabled").upper() == "Y":
        return "unknown"
    is_exact = read_text(field, "case_sensitive").upper() in ("", "Y")
    return "exact" if is_exact else "without case"


def _group(step: RowStep, reading: Reading, by_name: Mapping[str, RowStep]) -> str:
    element = step.element
    flags = ("all_rows", "ignore_aggregate", "add_linenr")
    if set_flags := [flag for flag in flags if read_text(element, flag).upper() == "Y"]:
        raise UntranslatableError(f"{step.name}: {', '.join(set_flags)} is set; write it in SQL")
    names = [read_text(each, "name") for each in element.iterfind("group/field")]
    if not names and read_text(element, "give_back_row").upper() != "Y":
        raise UntranslatableError(f"{step.name}: it returns no row without input; write it in SQL")
    orders: list[_KeyOrder] = ["exact"] * len(names)
    if names and step.kind == "GroupBy":
        orders = _refuse_unsorted(step, step.sources[0], names, reading, by_name)
    columns, keys = [], []
    for name, order in zip(names, orders, strict=True):
        key = _sorted_key(quote(name), order) if order == "unknown" else quote(name)
        value = empty_as_null(key)
        keys.append(value if order != "without case" else without_case(value))
        if order == "without case":
            problem = literal(f"{step.name}: a group has {name} in several cases; group it in SQL")
            value = f"IF(count(DISTINCT {value}) > 1, raise_error({problem}), first({value}))"
        columns.append(f"{value} AS {quote(name)}")
    columns += [_aggregate(step, each) for each in element.iterfind("fields/field")]
    grouped = f"\nGROUP BY {', '.join(keys)}" if names else ""
    return f"SELECT {', '.join(columns)}\nFROM {_one(step, reading)}{grouped}"


def _aggregate(step: RowStep, element: "Element") -> str:
    kind = read_text(element, "type").upper()
    if kind not in _AGGREGATES:
        raise UntranslatableError(f"{step.name}: {kind} has no exact counterpart; write it in SQL")
    column = quote(read_text(element, "subject"))
    value = empty_as_null(column) if kind in _OF_TEXTS else column
    if kind == "SUM":
        value = as_number(column)
    return f"{_AGGREGATES[kind].format(value)} AS {quote(read_text(element, 'aggregate'))}"


def _number(step: RowStep, reading: Reading, by_name: Mapping[str, RowStep]) -> str:
    """Return the query of a counter, which numbers rows in the order of a single Table input.

    Rows without an order may come in any order, so that any numbers are right: those by all columns
    are the same in each run.
    """
    element = step.element
    if read_text(element, "use_counter").upper() != "Y" or read_text(element, "counter_name"):
        raise UntranslatableError(f"{step.name}: it takes numbers of a sequence; write it in SQL")
    numbers = [read_text(element, name) for name in ("start_at", "increment_by", "max_value")]
    if any(re.fullmatch(r"-?[0-9]{1,18}", each) is None for each in numbers):
        raise UntranslatableError(f"{step.name}: its numbers must be whole: {', '.join(numbers)}")
    first, by, most = map(int, numbers)
    if by <= 0:
        raise UntranslatableError(f"{step.name}: it counts by {by}; write row_number() in SQL")
    at = step.sources[0]
    while at in by_name:
        before = by_name[at]
        looked = read_text(before.element, "from").lower()  # of a Stream lookup
        (at, *others) = [each for each in before.sources if each.lower() != looked]
        if before.kind not in _KEEPING_ORDER or others:
            raise UntranslatableError(
                f"{step.name}: the order of its rows is not known; write row_number() in SQL"
            )
    order = reading.orders.get(at)
    if order is None:
        raise UntranslatableError(f"{step.name}: {at} orders by expressions; number the rows there")
    keys = [
        f"{_sorted_key(quote(name), 'unknown')} {'DESC' if falls else 'ASC'}"
        for name, falls in order
    ]
    number = f"row_number() OVER (ORDER BY {', '.join([*keys, 'struct(*)'])})"
    value = f"{first} + {by} * ({number} - 1)"
    problem = literal(f"{step.name}: its numbers reach {most}, where Kettle starts again")
    checked = f"IF({value} > {most}, raise_error({problem}), {value})"
    (name,) = reading.rename(step.sources[0], [read_text(element, "valuename")])
    return f"SELECT *, CAST({checked} AS BIGINT) AS {quote(name)}\nFROM {_one(step, reading)}"


_KEEPING_ORDER = frozenset({"Dummy", "WriteToLog", "FilterRows", "Constant", "ValueMapper"})
_KEEPING_ORDER |= {"SelectValues", "SwitchCase", "Sequence", "DBLookup", "StreamLookup", *COMPUTING}
"""Types of steps with one source that send rows in the order in which they get them."""


def _unique(step: RowStep, reading: Reading, by_name: Mapping[str, RowStep]) -> str:
    """Return the query of Unique rows after a sort: equal rows that follow each other are one.

    Raises UntranslatableError if which row is kept depends on the order of equal rows.
    """
    element = step.element
    fields = element.findall("fields/field")
    names = [read_text(each, "name").lower() for each in fields]
    if read_text(element, "count_rows").upper() == "Y" or not names:
        raise UntranslatableError(f"{step.name}: write it with GROUP BY or DISTINCT in SQL")
    if any(read_text(each, "case_insensitive").upper() == "Y" for each in fields):
        raise UntranslatableError(
            f"{step.name}: it ignores case, so that the kept row depends on their order; use SQL"
        )
    chain, at = [], step.sources[0]
    while at in by_name and by_name[at].kind in ("Dummy", "WriteToLog", "SortRows"):
        chain.append(by_name[at])
        at = by_name[at].sources[0]
    sort = next((each for each in chain if each.kind == "SortRows"), None)
    selected = by_name.get(at)
    columns = _list_selected(selected)
    if sort is None or columns is None or {each.lower() for each in columns} != set(names):
        raise UntranslatableError(
            f"{step.name}: the kept row depends on the order of the rows; sort rows that have only "
            "its fields, or write row_number() in SQL"
        )
    by = [read_text(each, "name").lower() for each in sort.element.iterfind("fields/field")]
    exact = all(
        read_text(e, "case_sensitive").upper() == "Y" for e in sort.element.iterfind("fields/field")
    )
    if set(by[: len(names)]) != set(names) or not exact:
        raise UntranslatableError(f"{step.name}: the rows are not sorted by all of its fields")
    kept = ", ".join(f"{empty_as_null(quote(name))} AS {quote(name)}" for name in columns)
    return f"SELECT DISTINCT {kept} FROM {_one(step, reading)}"


def _compute(step: RowStep, reading: Reading, _: Mapping[str, RowStep]) -> str:
    source = step.sources[0]
    added, _removed = list_computed(step.kind, step.element)
    known = {each.lower() for each in reading.columns.get(source) or ()}
    if taken := [name for name in added if name.lower() in known]:
        raise UntranslatableError(f"{step.name}: its input has a field {taken[0]} already; use SQL")
    return compute_fields(step.name, step.kind, step.element, _one(step, reading))


def _list_selected(step: RowStep | None) -> list[str] | None:
    """Return the fields that Select values leaves; None if they are not known."""
    if step is None or step.kind != "SelectValues":
        return None
    if read_text(step.element, "fields/select_unspecified").upper() == "Y":
        return None
    if step.element.find("fields/meta") is not None:
        return None
    fields = step.element.findall("fields/field")
    removed = {read_text(each, "name").lower() for each in step.element.iterfind("fields/remove")}
    names = [read_text(e, "rename") or read_text(e, "name") for e in fields]
    return [name for name in names if name.lower() not in removed] or None


QUERIES: Mapping[str, Callable[[RowStep, Reading, Mapping[str, RowStep]], str]] = {
    "SelectValues": _select,
    "Constant": _constant,
    "ValueMapper": _map_values,
    "DBLookup": _look_up_table,
    "StreamLookup": _look_up_stream,
    "MergeJoin": _merge,
    "GroupBy": _group,
    "MemoryGroupBy": _group,
    "Unique": _unique,
    "Sequence": _number,
    **dict.fromkeys(COMPUTING, _compute),
}
"""Query of each type of step that changes rows."""

PASSING = frozenset({"Dummy", "WriteToLog", "TableOutput", "InsertUpdate"})
PASSING |= {"FilterRows", "SwitchCase", "SortRows"}
"""Types of steps that send on rows as they are; the last output may follow another one."""

JOINS = frozenset({"StreamLookup", "MergeJoin"})
"""Types of steps that read two steps."""
