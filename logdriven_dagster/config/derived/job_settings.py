"""Tables as a standard job runs them: with the job's settings and parameters behind their own."""

from typing import Any

from logdriven_dagster.config.models.jobs import StandardJob
from logdriven_dagster.config.models.tables import TableConfig

_HANDED_DOWN = frozenset({"retries", "retry_interval", "priority", "worker_group", "retry_version"})
"""The settings that a job gives to its tables; its `timeout` is that of the whole run."""


def in_job(table: TableConfig, job: StandardJob) -> TableConfig:
    """The table as the runs of a job have it: what it sets itself wins.

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
    # They are not the table's own: the registry compares those with what is in force.
    changed.model_fields_set.difference_update(_HANDED_DOWN - table.model_fields_set)
    return changed
