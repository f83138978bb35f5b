"""Spark Connect queries over frames that an `observe` counts.

Only the server knows a view, so the client does not receive the observations below one. Such a
frame is therefore sent together with the query that reads it.
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


def build_watched_query(
    spark: "SparkSession", sql: str, values: Mapping[str, Any], frames: Mapping[str, Any]
) -> DataFrame | None:
    """Return the result of a query over the observed frames that it names; None if it names none.

    `values` are the query's parameters, `frames` the views that it may name.
    """
    aliases = {
        name: f"watched_{uuid.uuid4().hex}"
        for name, frame in frames.items()
        if plan(frame).observations  # the client receives their counts
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
    """Return the result of a query that is sent together with the frames that it names.

    `values` are the query's parameters, `frames` its tables by name.
    """
    views = [SubqueryAlias(plan(frame), name) for name, frame in frames.items()]
    literals: Any = {name: sf.lit(value) for name, value in values.items()}
    session: Any = spark
    return DataFrame(_WatchedSql(sql, literals, views), session)


class _WatchedSql(SQL):
    """A query that passes on the observations of its frames, as other plans do."""

    def __init__(self, text: str, values: Any, views: list[Any]) -> None:
        super().__init__(text, [], values, views)
        self.watched = views

    @property
    def observations(self) -> dict[str, Any]:
        return {name: each for view in self.watched for name, each in view.observations.items()}
