"""Types of values in queries for Sail, and casts that fail for the same values as Spark's."""

import re
from datetime import date, datetime

from sqlglot import exp

from logdriven_dagster.plugins.sail.supported_sql import WHOLE, Kind, Type

BOOLEAN, STRING, INT, BIGINT = Type("boolean"), Type("string"), Type("int"), Type("bigint")
DATE, TIMESTAMP, VOID = Type("date"), Type("timestamp"), Type("void")

_INSTANT = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(\.\d{1,6})?Z?")
_KINDS: dict[str, Kind] = {
    "BOOLEAN": "boolean",
    "INT": "int",
    "BIGINT": "bigint",
    "DOUBLE": "double",
    "TEXT": "string",
    "DATE": "date",
    "TIMESTAMP": "timestamp",
    "TIMESTAMPTZ": "timestamp",
    "DECIMAL": "decimal",
}
_BOUNDS = {"int": (-(2**31), 2**31 - 1), "bigint": (-(2**63), 2**63 - 1)}


class UnprovenError(ValueError):
    """Part of a query that is not on the list of SQL proven to behave on Sail as on Spark."""


def type_named(text: str) -> Type:
    """Parse a type in Spark's notation. Raises UnprovenError for types that are not on the list."""
    found = re.fullmatch(r"decimal\((\d+),\s*(\d+)\)", text)
    if found:
        return Type("decimal", int(found[1]), int(found[2]))
    kind = next((each for each in _KINDS.values() if each == text and each != "decimal"), None)
    if kind is None:
        raise UnprovenError(f"a column of type {text}")
    return Type(kind)


def type_written(node: exp.DataType) -> Type:
    kind = _KINDS.get(node.this.name)
    if kind is None:
        raise UnprovenError(f"the type {node.sql('spark')}")
    if kind != "decimal":
        return Type(kind)
    given = [int(each.name) for each in node.expressions] or [10]
    return Type("decimal", given[0], given[1] if len(given) > 1 else 0)


def build_constant(text: str, goal: Type, node: exp.Expression) -> exp.Expression:
    """Return `node`, a literal with this text, if Sail reads it as a date or timestamp.

    Raises UnprovenError for other types than these, and for other notations.
    """
    try:
        if goal == DATE and re.fullmatch(r"\d{4}-\d\d-\d\d", text):
            date.fromisoformat(text)
            return node
        if goal == TIMESTAMP and _INSTANT.fullmatch(text):
            datetime.fromisoformat(text.rstrip("Z").partition(".")[0])
            return node
    except ValueError:
        pass
    raise UnprovenError(f"{text!r} as a {goal}")


def build_safe_cast(safe: exp.Expression, kind: Type, goal: Type) -> exp.Expression:
    """Return a cast of a safe value of type `kind` that fails for values out of range of `goal`."""
    made = build_plain_cast(safe, goal)
    if goal.kind in _BOUNDS and kind not in (INT, goal):
        return build_whole_number(safe, goal)
    if goal.kind != "decimal" or _has_room(goal, convert_to_decimal(kind)):
        return made
    known = exp.Not(
        this=wrap_in_paren(exp.Is(this=wrap_in_paren(safe.copy()), expression=exp.Null()))
    )
    lost = exp.And(this=known, expression=exp.Is(this=made.copy(), expression=exp.Null()))
    return _build_unless(lost, safe, made, goal)


def build_whole_number(value: exp.Expression, goal: Type) -> exp.Expression:
    """Return a cast to an integer type that fails for values out of range.

    Sail may evaluate a cast before it filters rows, or skip it if it can compare without it. Only
    `raise_error` is evaluated in place.
    """
    low, high = (
        exp.Cast(this=exp.Literal.string(str(bound)), to=exp.DataType.build("DECIMAL(19, 0)"))
        for bound in _BOUNDS[goal.kind]
    )
    less = exp.LT(this=wrap_in_paren(value.copy()), expression=low)
    outside = exp.Or(
        this=less, expression=exp.GT(this=wrap_in_paren(value.copy()), expression=high)
    )
    return _build_unless(outside, value, build_plain_cast(value, goal), goal)


def _build_unless(
    wrong: exp.Expression, value: exp.Expression, made: exp.Expression, goal: Type
) -> exp.Expression:
    """Return `made`, or an error for values for which `wrong` is true."""
    parts = [
        exp.Literal.string("the value "),
        build_plain_cast(value, STRING),
        exp.Literal.string(f" is too large for type {goal}"),
    ]
    shown = exp.Concat(expressions=parts, safe=True, coalesce=False)
    error = exp.Anonymous(this="raise_error", expressions=[shown])
    return exp.Case(ifs=[exp.If(this=wrong, true=error)], default=made)


def _has_room(goal: Type, kind: Type) -> bool:
    return goal.precision - goal.scale > kind.precision - kind.scale or (
        goal.precision - goal.scale == kind.precision - kind.scale and goal.scale >= kind.scale
    )


def build_plain_cast(value: exp.Expression, goal: Type) -> exp.Expression:
    return exp.Cast(this=value.copy(), to=exp.DataType.build(str(goal), dialect="spark"))


def wrap_in_paren(value: exp.Expression) -> exp.Expression:
    return exp.Paren(this=value)


def convert_to_decimal(kind: Type) -> Type:
    return Type("decimal", WHOLE[kind.kind], 0) if kind.kind in WHOLE else kind
