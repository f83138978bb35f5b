"""Instants and integers as literals in Spark's expressions.

PySpark converts an aware `datetime` to wall clock time on its way to Java, which loses the second
of the hours that exist twice when clocks go back. Therefore, every bound is passed as a literal in
UTC.
"""

from datetime import datetime, timezone
from typing import TYPE_CHECKING

from logdriven_dagster.engine.spark import functions as sf
from logdriven_dagster.model.windows import TimeWindow

if TYPE_CHECKING:
    from pyspark.sql import Column


def instant(time: datetime) -> "Column":
    """Return an instant as a literal of type TIMESTAMP."""
    return sf.expr(instant_text(time))


def instant_text(time: datetime) -> str:
    """Return an instant as a literal for the text of a query."""
    return f"TIMESTAMP '{time.astimezone(timezone.utc):%Y-%m-%d %H:%M:%S.%f}Z'"


def literal(number: int) -> "Column":
    """Return an integer of any size as a literal."""
    return sf.expr(number_text(number))


def number_text(number: int) -> str:
    """Return an integer of any size as a literal for the text of a query."""
    return f"{number}BD" if abs(number) >= 2**63 else f"{number}L"


def lies_within(value: str, window: TimeWindow) -> str:
    """Return SQL that tests whether a value lies in `[start, end)`.

    A text condition takes one call to Java, one built from columns takes forty.
    """
    return f"{value} >= {instant_text(window.start)} AND {value} < {instant_text(window.end)}"
