"""Instants and whole numbers in Spark's expressions.

PySpark turns an aware `datetime` into a wall-clock time on its way to Java, and then the hour that
exists twice when clocks go back exists only once. So every bound goes there as a literal in UTC.
"""

from datetime import datetime, timezone
from typing import TYPE_CHECKING

from logdriven_dagster.model.windows import TimeWindow

if TYPE_CHECKING:
    from pyspark.sql import Column


def instant(moment: datetime) -> "Column":
    """The moment as a literal of type TIMESTAMP."""
    from pyspark.sql import functions as sf

    return sf.expr(instant_text(moment))


def instant_text(moment: datetime) -> str:
    """The same in SQL."""
    return f"TIMESTAMP '{moment.astimezone(timezone.utc):%Y-%m-%d %H:%M:%S.%f}Z'"


def literal(number: int) -> "Column":
    """A whole number of any length."""
    from pyspark.sql import functions as sf

    return sf.expr(f"{number}BD" if abs(number) >= 2**63 else f"{number}L")


def lies_within(column: "Column", window: TimeWindow) -> "Column":
    """Whether the column's value lies in `[start, end)`."""
    return (column >= instant(window.start)) & (column < instant(window.end))
