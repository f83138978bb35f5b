"""Valid names in `${name}` and `:name` in the texts of a table or job.

`engine.queries.rendering` supplies the values when a window runs.
"""

from logdriven_dagster.config.models.jobs import MaintenanceJob
from logdriven_dagster.config.models.tables import TableConfig
from logdriven_dagster.config.project import Project

_RANGE = frozenset({"DATA_RANGE_START", "DATA_RANGE_END"})
CLOCK = frozenset({"YEAR", "MONTH", "DAY", "HOUR", "MINUTE"})
"""Names that only windows of time have."""
_JOB = frozenset({"JOB_ID", "JOB_NAME"})


def list_text_names(project: Project, table: TableConfig) -> frozenset[str]:
    """Return the names that are valid as `${name}` in the texts of a table's steps."""
    own = _list_given_names(project, table) | _RANGE | _JOB
    return own if table.is_sliced else own | CLOCK


def list_parameter_names(project: Project, table: TableConfig) -> frozenset[str]:
    """Return the names that are valid as `:name` in the queries of a table."""
    return _list_given_names(project, table) | {
        "data_range_start",
        "data_range_end",
        "job_id",
        "job_name",
    }


def list_job_names(project: Project, job: MaintenanceJob) -> frozenset[str]:
    """Return the names that are valid as `${name}` and `:name` in the statements of a job."""
    return frozenset({*project.config.variables, *job.parameters, "job_run_id", "job_name"})


def _list_given_names(project: Project, table: TableConfig) -> frozenset[str]:
    """Return variables of the project and the table, and parameters of the jobs that run it."""
    jobs = [job for job in project.jobs.values() if not isinstance(job, MaintenanceJob)]
    given = [name for job in jobs if table.table in job.tables for name in job.parameters]
    return frozenset({*project.config.variables, *table.variables, *given})
