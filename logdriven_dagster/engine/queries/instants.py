"""Instants and whole numbers in Spark's expressions.

PySpark turns an aware `datetime` into a wall-clock time on its way to Java, and then the hour that
exists twice when clocks go back exists only once. So every bound goes there as a literal in UTC.
"""

from datetime import datetime, timezone
from typing import TYPE_CHECKING

from logdriven_dagster.engine.spark import functions as sf
from logdriven_dagster.model.windows import TimeWindow

if TYPE_CHECKING:
    from pyspark.sql import Column


def instant(moment: datetime) -> "Column":
    """Return the moment as a literal of type TIMESTAMP."""
    return sf.expr(instant_text(moment))


def instant_text(moment: datetime) -> str:
    """Return the moment as a literal for the text of a query."""
    return f"TIMESTAMP '{moment.astimezone(timezone.utc):%Y-%m-%d %H:%M:%S.%f}Z'"


def literal(number: int) -> "Column":
    """Return a whole number of any length as a literal."""
    return sf.expr(number_text(number))


def number_text(number: int) -> str:
    """Return a whole number of any length as a literal for the text of a query."""
    return f"{number}BD" if abs(number) >= 2**63 else f"{number}L"


def lies_within(value: str, window: TimeWindow) -> str:
    """SQL that says whether a value lies in `[start, end)`.

    A condition in text is one call to Java, where built from columns it is forty.
    """
    return f"{value} >= {instant_text(window.start)} AND {value} < {instant_text(window.end)}"
