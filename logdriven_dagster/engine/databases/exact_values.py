"""Expressions that read and convert database values without change, or raise an error."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from logdriven_dagster.engine.queries.quoting import plain
from logdriven_dagster.errors import TerminalStepError
from logdriven_dagster.model.windows import TimeWindow

if TYPE_CHECKING:
    from pyspark.sql.types import StructField

MOST_DIGITS = 38
"""The precision of Spark's widest decimals."""
_DECLARED = "jdbcClientType"

DAY = "(?!0000)[0-9]{4}-[0-9]{2}-[0-9]{2}"
OFFSET = " ?(Z|[+-][0-9]{2}(:?[0-9]{2})?)"
TIMESTAMP = f"^{DAY}([ T][0-9]{{2}}:[0-9]{{2}}(:[0-9]{{2}}([.][0-9]+)?)?({OFFSET})?)?$"
DATE = f"^{DAY}([ T]00:00(:00([.]0+)?)?)?$"
ZONED = (
    "CASE length({v}) WHEN 10 THEN concat({v}, ' 00:00:00 {zone}') "
    "WHEN 16 THEN concat({v}, ':00 {zone}') ELSE CASE "
    f"WHEN {{v}} RLIKE ':[0-9.]+{OFFSET}$' THEN {{v}} ELSE concat({{v}}, ' {{zone}}') END END"
)
"""A time's text with a zone: the project's if it has none, in any session zone."""
_SHOWN = f"from_utc_timestamp(try_cast({ZONED} AS TIMESTAMP), '{{zone}}')"
_MEANT = f"try_cast({ZONED.replace('{zone}', 'UTC')} AS TIMESTAMP)"
EXISTS = f"({{v}} RLIKE ':[0-9.]+{OFFSET}$' OR {_SHOWN} = {_MEANT})"
"""Condition that the zone's clocks show a time's text; they skip some when they go forward."""
NO_TIME = "a value that is not a time such as 2022-01-31 12:00:00 that the clocks of {zone} show"


@dataclass(frozen=True, slots=True)
class Exact:
    """The exact read of a column: the type to read, and the expression that converts it.

    In the expression, `{v}` is the column and `{zone}` the project's zone; without an expression,
    the value is not converted.
    """

    read_as: str | None = None
    """Spark's type; by default the type that Spark infers."""
    converted: str | None = None
    selected: str | None = None
    """SQL that the database evaluates, with `{c}` for the column; by default the column."""
    within: Callable[[str, TimeWindow], str] | None = None
    """Function from the column's name to the database's filter for the window's rows."""
    refused: str | None = None
    """A condition in the database's SQL that is true, or an error for a value that drivers change.

    As a condition, it leaves the column to Spark's own filters, which the database then uses.
    """
    has_days: bool = False
    """True if it is read as text that starts with a day, so that Spark can filter by date."""


def build_checked_cast(
    field: "StructField", kind: str, condition: str, problem: str, value: str = "{v}"
) -> str:
    """Return the cast of a value that meets the condition; others raise an error with the column.

    `kind` is the target type, `problem` the description of refused values, `value` the expression
    to cast.
    """
    text = refusal(field, problem)
    return (
        f"CASE WHEN {{v}} IS NULL THEN NULL "
        f"WHEN {condition} AND try_cast({value} AS {kind}) IS NOT NULL "
        f"THEN CAST({value} AS {kind}) ELSE raise_error('{text}') END"
    )


def refusal(field: "StructField", problem: str) -> str:
    """Return the error message for a column with such a value; it needs no quoting in SQL."""
    name = plain(field.name)
    hint = f"read it with options.customSchema: `{name}` STRING, or convert it in query"
    return f"column {name} ({get_declared_type(field).strip('_')}) holds {problem}; {hint}"


def matches(pattern: str) -> str:
    return f"{{v}} RLIKE '{pattern}'"


def get_declared_type(field: "StructField") -> str:
    """Return the database's type of a column, in upper case, as its driver names it."""
    return str(field.metadata.get(_DECLARED, "")).upper()


def refuse_undeclared(fields: "Sequence[StructField]") -> None:
    """Raise TerminalStepError if Spark does not report the database's types, as in Spark 4.0.

    Value changes by Spark's own choice of a type would otherwise remain unnoticed.
    """
    if hidden := [field.name for field in fields if _DECLARED not in field.metadata]:
        raise TerminalStepError(
            f"this Spark does not report the database types of {', '.join(hidden)}, so "
            "values could change without notice; use Spark 4.1 or newer to read "
            "databases"
        )
