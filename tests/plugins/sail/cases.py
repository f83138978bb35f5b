"""The matrix: for each entry of the list of what is proven on Sail, expressions that use it."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product

from logdriven_dagster.plugins.sail import supported_sql as proven
from tests.plugins.sail.tables import VALUES

Entry = tuple[str, ...]

COLUMNS = {
    "boolean": ("b",),
    "int": ("i",),
    "bigint": ("l",),
    "double": ("x",),
    "string": ("s",),
    "date": ("d",),
    "timestamp": ("t",),
    "decimal": ("m", "n", "w"),
}
"""Type → columns of `pairs` that have it."""
ALL = [name for names in COLUMNS.values() for name in names]
_TYPES = {
    "int": ("INT",),
    "bigint": ("BIGINT",),
    "decimal": ("DECIMAL(38,6)", "DECIMAL(12,2)", "DECIMAL(5,1)", "DECIMAL(3,0)"),
    "string": ("STRING",),
    "date": ("DATE",),
    "timestamp": ("TIMESTAMP",),
    "boolean": ("BOOLEAN",),
    "double": ("DOUBLE",),
}
_TRIED = {"+": "try_add", "-": "try_subtract", "*": "try_multiply"}
_NUMBERS = ("int", "bigint", "decimal")


@dataclass(frozen=True, slots=True)
class Case:
    """An expression over `pairs`."""

    sql: str
    proves: Entry
    tried: str | None = None
    """What Spark makes NULL of where `sql` fails."""


def entries() -> set[Entry]:
    """Everything on the list."""
    alike = {("compare", sign, kind) for sign in proven.COMPARISONS for kind in proven.COMPARED}
    return {
        *(("cast", *each) for each in proven.CASTS),
        *alike,
        *(("arithmetic", sign) for sign in proven.ARITHMETIC),
        *(("text", name) for name in proven.OF_TEXT),
        *(("date", name) for name in proven.OF_DATES),
        *(("condition", name, kind) for name, kind in product(proven.CONDITIONAL, proven.STORED)),
        *(("aggregate", name) for name in proven.AGGREGATES),
        *(("extreme", kind) for kind in proven.ORDERED),
        *(("group by", kind) for kind in proven.COMPARED),
        *(("join", kind) for kind in proven.JOINS),
        *(("clause", name) for name in proven.CLAUSES),
        *(("stored", kind) for kind in proven.STORED),
    }


def cases() -> Iterator[Case]:
    """Expressions that look at one row."""
    for name in ALL:
        kind = _kind(name)
        yield Case(name, ("stored", kind))
        yield Case(f"{name} IS NULL", ("stored", kind))
        yield Case(f"{name} IS NOT NULL", ("stored", kind))
        yield from _conditions(name, kind)
    yield from _casts()
    yield from _comparisons()
    yield from _arithmetic()
    for function in ("upper", "lower", "length"):
        yield Case(f"{function}(s)", ("text", function))
    yield Case("concat(s, s2, '!')", ("text", "concat"))
    yield Case("s || s2", ("text", "concat"))
    for function in proven.OF_DATES:
        yield Case(f"{function}(d)", ("date", function))
    yield from _literals()


def _kind(name: str) -> str:
    return next(kind for kind, names in COLUMNS.items() if name in names)


def _conditions(name: str, kind: str) -> Iterator[Case]:
    other = f"{name}2"
    yield Case(f"coalesce({name}, {other})", ("condition", "coalesce", kind))
    yield Case(f"CASE WHEN b THEN {name} WHEN i > 0 THEN {other} END", ("condition", "case", kind))
    yield Case(f"CASE WHEN b THEN NULL ELSE {name} END", ("condition", "case", kind))
    yield Case(f"IF(i > 0 OR b, {name}, {other})", ("condition", "if", kind))


def _casts() -> Iterator[Case]:
    for start, goal in sorted(proven.CASTS):
        for name, text in product(COLUMNS[start], _TYPES[goal]):
            tried = f"try_cast({name} AS {text})"
            yield Case(f"CAST({name} AS {text})", ("cast", start, goal), tried)


def _comparisons() -> Iterator[Case]:
    for kind in sorted(proven.COMPARED):
        for name, sign in product(COLUMNS[kind], proven.COMPARISONS):
            yield Case(f"{name} {sign} {name}2", ("compare", sign, kind))
        for name in COLUMNS[kind]:
            yield Case(f"{name} BETWEEN {name}2 AND {name}", ("compare", "<=", kind))
            yield Case(f"{name} NOT BETWEEN {name}2 AND {name}2", ("compare", "<=", kind))
            yield Case(f"{name} IN ({name}2, NULL)", ("compare", "=", kind))
            yield Case(f"NOT {name} IN ({name}2)", ("compare", "=", kind))
    numbers = [name for kind in _NUMBERS for name in COLUMNS[kind]]
    for one, other in product(numbers, numbers):
        if one != other:
            yield Case(f"{one} < {other}2", ("compare", "<", _kind(one)))
            yield Case(f"{one} = {other}2", ("compare", "=", _kind(one)))
    for text in ("m >= 20", "m < 0.015", "i = 7", "l > 3000000000", "n <> 1.0", "w > -1"):
        yield Case(text, ("compare", text.split()[1], "decimal"))
    yield Case("b AND b2", ("compare", "=", "boolean"))
    yield Case("b OR b2", ("compare", "=", "boolean"))
    yield Case("NOT b", ("compare", "=", "boolean"))


def _arithmetic() -> Iterator[Case]:
    whole = [*COLUMNS["int"], *COLUMNS["bigint"]]
    for sign, one, other in product(proven.ARITHMETIC, whole, whole):
        tried = f"{_TRIED[sign]}({one}, {other}2)"
        yield Case(f"{one} {sign} {other}2", ("arithmetic", sign), tried)
        yield Case(f"{one} {sign} 1", ("arithmetic", sign), f"{_TRIED[sign]}({one}, 1)")
    for sign, (one, other) in product(
        proven.ARITHMETIC, (("m", "m2"), ("m", "n2"), ("n", "m2"), ("m", "i2"), ("l2", "n"))
    ):
        yield Case(f"{one} {sign} {other}", ("arithmetic", sign))
        yield Case(f"{one} {sign} coalesce({other}, {other})", ("arithmetic", sign))
    yield Case("w + m", ("arithmetic", "+"))
    yield Case("m * 1.5 - m", ("arithmetic", "*"))
    yield Case("(m + m2) * n", ("arithmetic", "*"))
    made = "m * coalesce(i, 1)"
    yield Case(
        f"CAST({made} AS DECIMAL(18, 2))",
        ("arithmetic", "*"),
        f"try_cast({made} AS DECIMAL(18, 2))",
    )


def _literals() -> Iterator[Case]:
    texts = (
        "it\\'s",
        "a\\\\b",
        "tab\\tnew\\nline",
        "ünïcode 😀",
        "100%",
        "{x} $y :z ${w}"[:10],
        "",
    )
    for text in texts:
        yield Case(f"concat(s, '{text}')", ("text", "concat"))
    yield Case('concat(s, "double")', ("text", "concat"))
    yield Case("d >= DATE '2024-02-29'", ("compare", ">=", "date"))
    for instant in (
        "2024-03-31 00:59:59.999999Z",
        "1969-12-31 23:59:59",
        "2024-10-27 01:30:00.000001",
    ):
        yield Case(f"t >= TIMESTAMP '{instant}'", ("compare", ">=", "timestamp"))
        yield Case(f"coalesce(t, TIMESTAMP '{instant}')", ("condition", "coalesce", "timestamp"))
    yield Case("coalesce(i, -2147483647)", ("condition", "coalesce", "int"))
    yield Case("coalesce(l, 9223372036854775807)", ("condition", "coalesce", "bigint"))
    yield Case("coalesce(b, true) AND NOT false", ("condition", "coalesce", "boolean"))
    yield Case("coalesce(m, 1234567890.12)", ("condition", "coalesce", "decimal"))


def queries() -> Iterator[tuple[str, Entry]]:
    """Queries that look at several rows."""
    for kind in sorted(proven.COMPARED):
        for name in COLUMNS[kind]:
            # What is aggregated has nothing to do with what is grouped by: all of it once.
            chosen = _summed() if name == "s" else (("sum", "i2"), ("min", "t2"))
            made = [f"{_aggregate(each, other)} AS {each}_{other}" for each, other in chosen]
            sql = f"SELECT {name} AS k, count(*) AS n, {', '.join(made)} FROM pairs GROUP BY {name}"
            yield sql, ("group by", kind)
    yield f"SELECT DISTINCT {', '.join(sorted(_compared()))} FROM pairs", ("clause", "distinct")
    made = [f"count({name}) AS {name}" for name in ALL]
    yield f"SELECT {', '.join(made)} FROM pairs", ("aggregate", "count")
    for kind, rows in product(sorted(proven.ORDERED), (1000, 0)):
        names = COLUMNS[kind]
        made = [f"min({name}) AS a{name}, max({name}) AS z{name}" for name in names]
        yield f"SELECT {', '.join(made)} FROM pairs WHERE id < {rows}", ("extreme", kind)
    for entry in ("count_all", "count_distinct", "sum", "min", "max"):
        yield (
            (
                "SELECT count(*) AS n, count(DISTINCT i) AS d, sum(i) AS s, min(s) AS a "
                "FROM pairs WHERE id < 0"
            ),
            ("aggregate", entry),
        )
    for kind, name in product(proven.JOINS, [COLUMNS[each][0] for each in sorted(proven.COMPARED)]):
        yield (
            (
                f"SELECT a.id, b.id AS other, b.s FROM pairs a {kind} JOIN pairs b "
                f"ON a.{name} = b.{name}2 AND b.id < 12 WHERE a.id < 40"
            ),
            ("join", kind),
        )
    yield "SELECT id, s FROM pairs WHERE i > 0 OR s IS NULL", ("clause", "where")
    yield "SELECT s, sum(m) AS m FROM pairs GROUP BY s", ("clause", "group by")
    yield "SELECT s, count(*) AS n FROM pairs GROUP BY s HAVING min(i) < 0", ("clause", "having")
    yield (
        (
            "SELECT a.id, b.l FROM pairs AS a JOIN pairs b ON a.id = b.id + 1 LEFT JOIN pairs c "
            "ON c.id = b.l AND c.s = a.s"
        ),
        ("clause", "join"),
    )
    yield (
        (
            "WITH few AS (SELECT * FROM pairs WHERE id < 9), more AS (SELECT f.id, f.s FROM few f) "
            "SELECT m.* FROM more m"
        ),
        ("clause", "with"),
    )
    yield (
        ("SELECT q.k, q.n + 1 AS n FROM (SELECT s AS k, count(*) AS n FROM pairs GROUP BY s) q"),
        ("clause", "subquery"),
    )
    yield (
        ("SELECT id, s FROM pairs UNION ALL SELECT id + 1 AS id, s2 AS other FROM pairs"),
        ("clause", "union all"),
    )


def _compared() -> list[str]:
    return [name for kind in sorted(proven.COMPARED) for name in COLUMNS[kind][:2]]


def _summed() -> Iterator[tuple[str, str]]:
    for kind in sorted(proven.ORDERED):
        for name in COLUMNS[kind]:
            yield from product(("min", "max", "countd"), (f"{name}2",))
    yield from (("sum", name) for name in ("i2", "m2", "n2", "w2"))


def _aggregate(name: str, column: str) -> str:
    return f"count(DISTINCT {column})" if name == "countd" else f"{name}({column})"


assert set(ALL) == set(VALUES)
