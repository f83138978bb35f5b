"""`on_running`: the handling of windows that run elsewhere during a catch-up. Source: Sharp ETL."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from logdriven_dagster.config.project import Project
from logdriven_dagster.errors import AlreadyRunningError
from logdriven_dagster.execution.arguments import RunArguments
from logdriven_dagster.model.attempts import OnRunning, Status
from logdriven_dagster.model.logs import OpenWindow, TableLog


def with_replaceable(
    project: Project, logs: Mapping[str, TableLog], arguments: RunArguments
) -> dict[str, TableLog]:
    """Treat running attempts that are to be replaced as failed, so that their windows are due."""
    return {
        name: _replaceable(log)
        if log.open and _on_running(project, name, arguments) is OnRunning.REPLACE
        else log
        for name, log in logs.items()
    }


def refuse_running(
    project: Project,
    logs: Mapping[str, TableLog],
    selected: Sequence[str],
    arguments: RunArguments,
) -> None:
    """Raise AlreadyRunningError for a running window of a table whose `on_running` is `fail`.

    Source: Sharp ETL, AnotherJobIsRunning.
    """
    for name in selected:
        for item in logs[name].open:
            running = item.status is Status.RUNNING
            if running and _on_running(project, name, arguments) is OnRunning.FAIL:
                by = f"job {item.job_id} of {item.owner}"
                fix = "use on_running: skip to leave it running, or replace to end it"
                raise AlreadyRunningError(f"{name} {item.window} is running in {by}; {fix}")


def _on_running(project: Project, table: str, arguments: RunArguments) -> OnRunning:
    return arguments.on_running or project.tables[table].on_running


def _replaceable(log: TableLog) -> TableLog:
    return replace(log, open=tuple(map(_as_failed_if_running, log.open)))


def _as_failed_if_running(item: OpenWindow) -> OpenWindow:
    if item.status is not Status.RUNNING:
        return item
    error = "another runner processes it"
    return replace(item, status=Status.FAILURE, failures=0, error=error, presumed=True)
