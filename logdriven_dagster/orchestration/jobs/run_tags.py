"""Tags of the runs that jobs, schedules and sensors start."""

from dagster import DagsterRun

from logdriven_dagster.config.models.settings import Settings
from logdriven_dagster.model.job_runs import StartedBy

PROJECT_TAG = "logdriven/project"
RETRY_VERSION_TAG = "logdriven/retry_version"
"""On a materialization: `recorded` or `latest`, which wins over the table's own."""
TRIGGER_TAG = "logdriven/trigger"
"""On runs started by a schedule or a sensor: the kind of starter."""
WORKER_GROUP_TAG = "logdriven/worker_group"
PRIORITY_TAG = "dagster/priority"
"""Dagster's own tag: runs with greater values leave the run queue first."""


def run_tags(settings: Settings) -> dict[str, str]:
    """Return run tags with the worker group and the priority of a run.

    Source: DolphinScheduler, worker group and priority.
    """
    tags = {PRIORITY_TAG: str(settings.priority)} if settings.priority else {}
    group = settings.worker_group
    return tags | ({WORKER_GROUP_TAG: group} if group else {})


def find_starter(run: DagsterRun) -> StartedBy:
    """Return the starter of a run; schedules and sensors set a tag."""
    match run.tags.get(TRIGGER_TAG):
        case "schedule":
            return "schedule"
        case "sensor":
            return "sensor"
        case _:
            return "manual"
