"""Runners for the runs of Dagster."""

from typing import Any

from dagster import AssetExecutionContext, OpExecutionContext

from logdriven_dagster.execution.opening import open_runner
from logdriven_dagster.execution.runner import Runner
from logdriven_dagster.orchestration.location import Location


def open_runner_of_run(
    context: AssetExecutionContext | OpExecutionContext, location: Location
) -> Runner:
    """Open a runner for a run of Dagster; its Spark session starts with the first window."""
    spark: Any = getattr(context.resources, location.spark)
    return open_runner(
        location.project, dagster_run_id=context.run.run_id, spark=lambda: spark.spark_session
    )
