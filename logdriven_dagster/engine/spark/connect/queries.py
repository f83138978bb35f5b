"""Queries on Spark Connect over frames that an `observe` counts.

A view is known to the server alone: it tells nobody what was counted below one. So such a frame
travels with the query that reads it.
"""

import uuid
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from pyspark.sql.connect import functions as sf
from pyspark.sql.connect.dataframe import DataFrame
from pyspark.sql.connect.plan import SQL, SubqueryAlias

from logdriven_dagster.config.sql.references import UnreadableSqlError, replace_tables
from logdriven_dagster.engine.spark.connect.internals import plan

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def watched_query(
    spark: "SparkSession", sql: str, values: Mapping[str, Any], frames: Mapping[str, Any]
) -> DataFrame | None:
    """The result of a query that names frames which are observed; None if it names none."""
    aliases = {
        name: f"watched_{uuid.uuid4().hex}"
        for name, frame in frames.items()
        if plan(frame).observations  # whom the client tells what was counted
    }
    try:
        text = replace_tables(sql, aliases)
    except UnreadableSqlError:
        return None
    named = {alias: frames[name] for name, alias in aliases.items() if alias in text}
    return query_over(spark, text, values, named) if named else None


def query_over(
    spark: "SparkSession", sql: str, values: Mapping[str, Any], frames: Mapping[str, Any]
) -> DataFrame:
    """The result of a query that takes the frames which it names with it."""
    views = [SubqueryAlias(plan(frame), name) for name, frame in frames.items()]
    literals: Any = {name: sf.lit(value) for name, value in values.items()}
    session: Any = spark
    return DataFrame(_WatchedSql(sql, literals, views), session)


class _WatchedSql(SQL):
    """A query whose client hears what its frames count, as it does of other plans."""

    def __init__(self, text: str, values: Any, views: list[Any]) -> None:
        super().__init__(text, [], values, views)
        self.watched = views

    @property
    def observations(self) -> dict[str, Any]:
        return {name: each for view in self.watched for name, each in view.observations.items()}
