"""Row counts of a finished query, from the metrics that Spark kept while it ran.

No row is read a second time.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from logdriven_dagster.engine.spark.actions import Action
from logdriven_dagster.engine.spark.mode import Mark
from logdriven_dagster.engine.spark.modes import mode_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True, slots=True)
class QueryCounts:
    """Rows of one finished write; None where Spark kept no number."""

    source: int | None
    """Rows that the sources delivered, after the filters directly above them.

    A source that the query reads twice counts twice; one that Spark never had to read counts zero.
    None under a LIMIT, because the number of rows that were looked at is an accident then.
    """
    written: int | None
    """Rows that the writer wrote."""
    most: int | None = None
    """The most rows that a part of the query put out, be it a scan before its filter or a join."""


def counted(spark: "SparkSession", label: str, write: Callable[[], None]) -> QueryCounts:
    """Run one writing query, interruptibly, and count its rows."""
    action = Action(spark, f"{label}: write", write)
    action.run()
    return query_counts(spark, action.mark)


def query_counts(spark: "SparkSession", mark: Mark) -> QueryCounts:
    """Return the counts of the latest query that ran under this mark."""
    plan = mode_of(spark).query_plan(spark, mark)
    if plan is None:
        return QueryCounts(None, None)
    return QueryCounts(plan.source_rows(), plan.written_rows(), plan.most_rows())
