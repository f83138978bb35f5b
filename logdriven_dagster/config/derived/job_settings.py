"""Tables as a standard job runs them: the job's settings and parameters are their defaults."""

from typing import Any

from logdriven_dagster.config.models.jobs import StandardJob
from logdriven_dagster.config.models.tables import TableConfig

_HANDED_DOWN = frozenset({"retries", "retry_interval", "priority", "worker_group", "retry_version"})
"""Settings that tables inherit from a job; a job's `timeout` applies to the whole run."""


def apply_job_settings(table: TableConfig, job: StandardJob) -> TableConfig:
    """Return the table with the job's settings and parameters where it does not set its own.

    Sources: DolphinScheduler, global and local parameters; Kettle, retries are those of the job.
    """
    if table.table not in job.tables:
        return table
    given: dict[str, Any] = {
        name: getattr(job, name)
        for name in _HANDED_DOWN
        if name in job.model_fields_set and name not in table.model_fields_set
    }
    if job.parameters:
        given["variables"] = {**job.parameters, **table.variables}
    if not given:
        return table
    changed = table.model_copy(update=given)
    # Not the table's own settings: the registry compares those with the settings in force.
    changed.model_fields_set.difference_update(_HANDED_DOWN - table.model_fields_set)
    return changed
