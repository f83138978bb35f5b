"""How a value of a database is read and converted so that it does not change, or is an error."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from logdriven_dagster.engine.queries.quoting import plain
from logdriven_dagster.errors import TerminalStepError
from logdriven_dagster.model.windows import TimeWindow

if TYPE_CHECKING:
    from pyspark.sql.types import StructField

_DECLARED = "jdbcClientType"

DAY = "[0-9]{4}-[0-9]{2}-[0-9]{2}"
OFFSET = " ?(Z|[+-][0-9]{2}(:?[0-9]{2})?)"
MOMENT = f"^{DAY}([ T][0-9]{{2}}:[0-9]{{2}}(:[0-9]{{2}}([.][0-9]+)?)?({OFFSET})?)?$"
DATE = f"^{DAY}([ T]00:00(:00([.]0+)?)?)?$"
ZONED = (
    "CASE length({v}) WHEN 10 THEN concat({v}, ' 00:00:00 {zone}') "
    "WHEN 16 THEN concat({v}, ':00 {zone}') ELSE CASE "
    f"WHEN {{v}} RLIKE ':[0-9.]+{OFFSET}$' THEN {{v}} ELSE concat({{v}}, ' {{zone}}') END END"
)
"""A time's text with a zone: that of the project where it has none, whatever the session's is."""
_SHOWN = f"from_utc_timestamp(try_cast({ZONED} AS TIMESTAMP), '{{zone}}')"
_MEANT = f"try_cast({ZONED.replace('{zone}', 'UTC')} AS TIMESTAMP)"
EXISTS = f"({{v}} RLIKE ':[0-9.]+{OFFSET}$' OR {_SHOWN} = {_MEANT})"
"""Whether the clocks of the zone ever show a time's text; they skip some when they go forward."""
NO_TIME = "no time like 2022-01-31 12:00:00 that the clocks of {zone} show"


@dataclass(frozen=True, slots=True)
class Exact:
    """How to read a column: as which type, and the expression that converts it.

    `{v}` stands for the column and `{zone}` for the project's zone in the expression; without one
    it stays as it was read.
    """

    read_as: str | None = None
    """Spark's type; by default the one that it chooses."""
    converted: str | None = None
    selected: str | None = None
    """What the database is asked for, where `{c}` is the column; by default the column."""
    within: Callable[[str, TimeWindow], str] | None = None
    """What the database filters the column of this name by, so that the window's rows are there."""
    refused: str | None = None
    """A condition in the database's SQL that is true, or an error for a value that drivers change.

    As a condition it leaves the column to Spark's own filters, which the database then uses.
    """
    has_days: bool = False
    """Whether it is read as texts that begin with a day, so that Spark can filter it by these."""


def checked(
    field: "StructField", kind: str, condition: str, problem: str, value: str = "{v}"
) -> str:
    """The cast of a value that meets the condition; an error naming the column for any other."""
    text = refusal(field, problem)
    return (
        f"CASE WHEN {{v}} IS NULL THEN NULL "
        f"WHEN {condition} AND try_cast({value} AS {kind}) IS NOT NULL "
        f"THEN CAST({value} AS {kind}) ELSE raise_error('{text}') END"
    )


def refusal(field: "StructField", problem: str) -> str:
    """What is said of a column that holds such a value; it has no quote that SQL would mind."""
    name = plain(field.name)
    hint = f"read it with options.customSchema: `{name}` STRING, or convert it in query"
    return f"column {name} ({declared(field).strip('_')}) holds {problem}; {hint}"


def matches(pattern: str) -> str:
    return f"{{v}} RLIKE '{pattern}'"


def declared(field: "StructField") -> str:
    """The type that the database has for a column, as its driver calls it."""
    return str(field.metadata.get(_DECLARED, "")).upper()


def refuse_undeclared(fields: "Sequence[StructField]") -> None:
    """TerminalStepError where Spark hides what the database has, as Spark 4.0 does.

    Nobody would notice a value that Spark's own choice of a type changes.
    """
    if hidden := [field.name for field in fields if _DECLARED not in field.metadata]:
        raise TerminalStepError(
            f"this Spark does not tell which types the database has for {', '.join(hidden)}, so "
            "values could change without notice; databases are read with Spark 4.1 or newer"
        )
