"""Rows of `loop_over` as variables. Source: Sharp ETL, executeSqlToVariables."""

from collections.abc import Mapping, Sequence
from functools import reduce
from typing import TYPE_CHECKING

from logdriven_dagster.config.models.steps import VARIABLE, LoopOver
from logdriven_dagster.engine.queries.data_values import Value
from logdriven_dagster.engine.spark.actions import run_action
from logdriven_dagster.errors import TerminalStepError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def loop_rows(rows: "DataFrame", loop: LoopOver, label: str) -> list[Mapping[str, Value]]:
    """Return each row as `row_<column>` → value; other types than numbers and booleans become text.

    `label` describes the Spark job. Raises TerminalStepError if there are more than `max_rows`
    rows, or if a value is NULL, which a variable cannot be.
    """
    limit = rows.limit(loop.max_rows + 1)
    found = run_action(rows.sparkSession, f"{label}: loop_over", limit.collect)
    if len(found) > loop.max_rows:
        fix = f"max_rows is {loop.max_rows:,}"
        raise TerminalStepError(f"loop_over: more than {loop.max_rows:,} rows; {fix}")
    return [_variables(row.asDict()) for row in found]


def _variables(row: "Mapping[str, object]") -> Mapping[str, Value]:
    if empty := [name for name, value in row.items() if value is None]:
        names = ", ".join(empty)
        raise TerminalStepError(f"loop_over: a row has NULL in {names}; exclude such rows")
    return {
        VARIABLE + name: value if isinstance(value, (bool, int, float)) else str(value)
        for name, value in row.items()
    }


def union(frames: "Sequence[DataFrame]", loop: LoopOver, spark: "SparkSession") -> "DataFrame":
    """Unite all results by column name; columns that a result lacks are NULL.

    Without results, the frame is empty, with the schema in the loop's `columns`. Raises
    TerminalStepError if there is no such schema.
    """
    if frames:
        return reduce(lambda one, other: one.unionByName(other, allowMissingColumns=True), frames)
    if loop.columns is None:
        fix = "set `columns`, the columns of an empty result"
        raise TerminalStepError(f"loop_over found no rows, so there is nothing to run; {fix}")
    return spark.createDataFrame([], loop.columns).limit(0)
