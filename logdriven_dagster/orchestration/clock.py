"""The data clock of a Dagster run."""

from datetime import datetime

from dagster import DagsterRun

from logdriven_dagster.config.models.fields import read_instant
from logdriven_dagster.config.project import Project
from logdriven_dagster.errors import UsageError

NOW_TAG = "logdriven/now"
"""A run tag that pins the data clock, as `now` does in the configuration of `catch_up`."""


def data_clock(run: DagsterRun, project: Project, given: str | None = None) -> datetime:
    """Return `given`, else the run's tag, else the machine's time; UsageError if unreadable."""
    text = given or run.tags.get(NOW_TAG)
    if text is None:
        return datetime.now(project.zone)
    try:
        return read_instant(text, project.zone)
    except ValueError as error:
        raise UsageError(f"now: {error}") from None
