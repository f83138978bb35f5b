"""Random queries of what is on the list: expressions within expressions, of every type."""

from functools import cache
from itertools import product

from hypothesis import strategies as st

from logdriven_dagster.plugins.sail import supported_sql as proven
from tests.plugins.sail.cases import COLUMNS
from tests.plugins.sail.tables import WIDE

Text = st.SearchStrategy[str]

_NUMBERS = ("int", "bigint", "decimal")
_NAMES = {**COLUMNS, "decimal": (*COLUMNS["decimal"], *WIDE)}
_WRITTEN = {
    "boolean": ("true", "false"),
    "int": ("0", "7", "-1", "2147483647"),
    "bigint": ("3000000000", "9223372036854775807"),
    "string": ("''", "'a'", "'Ab%'"),
    "date": ("DATE '2024-02-29'", "DATE '1582-10-10'", "DATE '0001-01-01'"),
    "timestamp": ("TIMESTAMP '1969-12-31 23:59:59.5Z'", "TIMESTAMP '2024-03-31 01:00:00'"),
    "decimal": ("1.5", "-123456.789", "0.000000000000000000000001", "99999999999999999999.9"),
}
_DECIMALS = ("DECIMAL(38,6)", "DECIMAL(12,2)", "DECIMAL(3,0)", "DECIMAL(38,0)", "DECIMAL(38,38)")
_DEEPEST = 3


def queries() -> Text:
    """Queries over `pairs`: of its rows, of groups, of pairs of rows."""
    return st.one_of(_of_rows(), _of_groups(), _of_pairs())


def _of_rows() -> Text:
    made = st.sampled_from(sorted(_NAMES)).flatmap(lambda kind: _values(kind, _DEEPEST))
    return st.builds("SELECT id, {} AS v FROM pairs WHERE {}".format, made, _few())


def _of_groups() -> Text:
    kinds = [
        *product(("min", "max", "count"), sorted(proven.ORDERED)),
        *product(("sum",), _NUMBERS),
    ]
    found = st.sampled_from(kinds).flatmap(
        lambda each: st.builds(f"{each[0]}({{}})".format, _values(each[1], 2))
    )
    groups = st.sampled_from(sorted(proven.COMPARED)).flatmap(lambda kind: _values(kind, 1))
    text = "SELECT {0} AS k, count(*) AS n, {1} AS v FROM pairs WHERE {2} GROUP BY {0}"
    return st.builds(text.format, groups, found, _few())


def with_exact_sum(sql: str) -> str:
    """Return a query of groups whose sum of whole numbers cannot overflow on the way."""
    opened = sql.replace(", sum(", ", CAST(sum(CAST(")
    closed = opened.replace(") AS v FROM", " AS DECIMAL(38,0))) AS BIGINT) AS v FROM")
    return sql if opened == sql else closed


def _of_pairs() -> Text:
    kinds = sorted(proven.COMPARED)
    keys = [(one, two) for kind in kinds for one, two in product(_NAMES[kind], repeat=2)]
    text = "SELECT a.id, b.id AS other FROM pairs a {} pairs b ON a.{} = b.{} AND b.id < 12"
    signs = st.sampled_from(("JOIN", "LEFT JOIN"))
    return st.builds(
        lambda sign, key: text.format(sign, *key) + " WHERE a.id < 12", signs, st.sampled_from(keys)
    )


def _few() -> Text:
    """Conditions: in all rows some value often fails the query."""
    rows = st.lists(st.integers(0, 80), min_size=1, max_size=6, unique=True)
    return st.one_of(
        _values("boolean", 2), rows.map(lambda ids: f"id IN ({', '.join(map(str, ids))})")
    )


@cache
def _values(kind: str, depth: int) -> Text:
    """Values of a type, so deep."""
    names = [name + end for name in _NAMES[kind] for end in ("", "2")]
    plain = st.sampled_from([*names, *_WRITTEN.get(kind, ())])
    if depth == 0:
        return plain
    forms = [(text, holes) for goal, text, holes in _FORMS if goal == kind]
    made = st.sampled_from(forms).flatmap(
        lambda form: st.builds(form[0].format, *(_values(hole, depth - 1) for hole in form[1]))
    )
    return st.one_of(plain, made) if forms else plain


Form = tuple[str, str, tuple[str, ...]]


def _forms() -> list[Form]:
    """Type → text with holes, and the types of those."""
    alike = [(kind, kind) for kind in sorted(proven.COMPARED - set(_NUMBERS))]
    compared = [*alike, *product(_NUMBERS, repeat=2)]
    forms: list[Form] = [
        ("boolean", "({} AND {})", ("boolean", "boolean")),
        ("boolean", "({} OR {})", ("boolean", "boolean")),
        ("boolean", "NOT ({})", ("boolean",)),
        ("string", "concat({}, {})", ("string", "string")),
        ("string", "({} || {})", ("string", "string")),
        ("string", "upper({})", ("string",)),
        ("string", "lower({})", ("string",)),
        ("int", "length({})", ("string",)),
    ]
    for one, other in compared:
        forms += [("boolean", f"({{}} {sign} {{}})", (one, other)) for sign in proven.COMPARISONS]
        forms += [
            ("boolean", "({} BETWEEN {} AND {})", (one, other, one)),
            ("boolean", "({} NOT IN ({}, NULL, {}))", (one, one, other)),
            ("boolean", "({} IN ({}))", (one, other)),
        ]
    forms += [("boolean", "({} IS NOT NULL)", (kind,)) for kind in sorted(proven.COMPARED)]
    forms += [("int", f"{name}({{}})", ("date",)) for name in proven.OF_DATES]
    for sign, (one, other) in product(proven.ARITHMETIC, product(_NUMBERS, repeat=2)):
        goal = "decimal" if "decimal" in (one, other) else max(one, other, key=_NUMBERS.index)
        forms.append((goal, f"({{}} {sign} {{}})", (one, other)))
    for start, goal in sorted(proven.CASTS):
        names = _DECIMALS if goal == "decimal" else (goal.upper(),)
        forms += [(goal, f"CAST({{}} AS {name})", (start,)) for name in names]
    for kind in sorted(set(proven.STORED) - {"decimal"}):  # where two have seldom one type
        forms += [
            (kind, "coalesce({}, {})", (kind, kind)),
            (kind, "IF({}, {}, {})", ("boolean", kind, kind)),
            (kind, "CASE WHEN {} THEN {} WHEN {} THEN NULL ELSE {} END", ("boolean", kind) * 2),
        ]
    forms += [
        ("decimal", f"IF({{}}, {name}, coalesce({name}2, {name}))", ("boolean",))
        for name in _NAMES["decimal"]
    ]
    return forms


_FORMS = _forms()
