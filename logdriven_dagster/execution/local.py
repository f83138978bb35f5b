"""A runner for this process, built from a project."""

from collections.abc import Callable
from functools import cache
from threading import Lock
from typing import TYPE_CHECKING

from logdriven_dagster.config import Project
from logdriven_dagster.engine import Engine
from logdriven_dagster.execution.owners import current_owner
from logdriven_dagster.execution.runner import Runner
from logdriven_dagster.model.source_rows import SourceRows
from logdriven_dagster.runlog import RunLog, audits

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def open_runner(
    project: Project,
    *,
    dagster_run_id: str | None = None,
    spark: "Callable[[], SparkSession] | None" = None,
    run_log: RunLog | None = None,
) -> Runner:
    """A runner with the project's run log and, at the first window, a Spark session.

    `spark` gives the session to use; by default the project's own is started or reused. `run_log`
    is the project's where it is open already.
    """
    starting, log = Lock(), run_log or RunLog.open(project.run_log_url)

    def recall(table: str) -> list[SourceRows]:
        return log.ask(lambda conn: audits.found(conn, [table]))

    @cache
    def started() -> Engine:
        if spark is not None:
            return Engine(project, spark(), recall)
        from logdriven_dagster.engine import spark_session

        return Engine(project, spark_session(project), recall)

    def engine() -> Engine:
        with starting:  # windows side by side ask for the one that all share
            return started()

    return Runner(project, log, engine, current_owner(dagster_run_id))
