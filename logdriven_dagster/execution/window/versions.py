"""The version of a table that an attempt runs, with the settings in force.

Pending windows run the version in force: users who fix a file expect the fixed file to run. Source:
DolphinScheduler: a run carries the versions that it ran, and a rerun of that run has them again.
Here `retry_version: recorded` enables this.
"""

from dataclasses import replace

from sqlalchemy.engine import Connection

from logdriven_dagster.config.checking.documents import validate_table
from logdriven_dagster.config.derived.contents import write_registered
from logdriven_dagster.config.derived.job_settings import apply_job_settings
from logdriven_dagster.config.derived.relations import add_waits
from logdriven_dagster.config.models.settings import RetryVersion, apply_settings
from logdriven_dagster.config.models.tables import TableConfig
from logdriven_dagster.config.project import Project
from logdriven_dagster.config.project_files import get_definitions_folder
from logdriven_dagster.errors import DisabledError, InvalidProjectError, UsageError
from logdriven_dagster.execution.window.orders import Order
from logdriven_dagster.model.attempts import Status
from logdriven_dagster.model.definitions import Kind, build_code
from logdriven_dagster.runlog.attempts.inheritance import find_last_version
from logdriven_dagster.runlog.definitions import registry as definitions

_TRIED_AGAIN = (Status.FAILURE, Status.DISCARDED, Status.RUNNING)


def prepare_order(conn: Connection, order: Order) -> Order:
    """Return the order with the version to run and the settings in force; reads only.

    Raises DisabledError if the table is disabled.
    """
    name = order.table.table
    project = order.project
    if project.version(Kind.TABLE, name) is None:
        _refuse_disabled(order.table)
        return order
    settings = definitions.read_settings(conn, project.name, Kind.TABLE, [name])
    version = find_recorded_version(conn, order)
    if version is not None:
        project = _load_at(conn, project, name, version)
    table = project.table(name)
    if name in settings:
        table = apply_settings(table, settings[name])
    _refuse_disabled(table)
    table = _of_its_job(table, order)
    if table is not project.table(name):
        project = project.with_tables({name: table})
    return replace(order, project=project, table=table)


def _refuse_disabled(table: TableConfig) -> None:
    if not table.enabled:
        fix = f"enable it with `logdriven enable {table.table}`"
        raise DisabledError(f"{table.table} is disabled; {fix}")


def find_recorded_version(conn: Connection, order: Order) -> int | None:
    """Return the version of the last attempt, if it is to run again and is not the current one."""
    if _retry_version(order) == "latest":
        return None
    last = find_last_version(conn, order.table.table, order.window)
    if last is None or last[0] not in _TRIED_AGAIN:
        return None
    present = order.project.version(Kind.TABLE, order.table.table)
    return None if last[1] in (None, present) else last[1]


def _retry_version(order: Order) -> RetryVersion:
    asked = order.arguments.retry_version
    return asked or _of_its_job(order.table, order).retry_version


def _of_its_job(table: TableConfig, order: Order) -> TableConfig:
    """Return the table with the settings of the job that runs it, if one does."""
    run = order.arguments.job_run
    return table if run is None else apply_job_settings(table, order.project.standard_job(run.job))


def _load_at(conn: Connection, project: Project, name: str, version: int) -> Project:
    """Return the project with an earlier version of one table, if it has the same windows."""
    code = build_code(project.name, Kind.TABLE, name)
    content = definitions.read_content(conn, Kind.TABLE, code, version)
    if content is None:
        return project
    folder = get_definitions_folder(project.root)
    try:
        document = write_registered(folder, project.name, Kind.TABLE, name, content)
        table = validate_table(document, project.zone)
    except InvalidProjectError as error:
        fix = "use --retry-version latest to run the version in force"
        raise UsageError(
            f"{name} failed in version {version}, which cannot be read any more; {fix}: {error}"
        ) from None
    present = project.table(name)
    if not _same_windows(table, present):
        return project
    # The table waits for the upstreams of the job that runs it, in any version.
    table = add_waits(table, (d for d in present.table_dependencies if d.read == "none"))
    return replace(
        project,
        tables={**project.tables, name: table},
        files={**project.files, name: document.path},
        versions={**project.versions, code: version},
        other_versions={
            **project.other_versions,
            name: _version_note(version, project.versions[code]),
        },
    )


def _version_note(version: int, present: int) -> str:
    return f"version {version}, as in its last attempt, not version {present}, which is in force"


def _same_windows(one: TableConfig, other: TableConfig) -> bool:
    kinds = {(table.incremental_type, table.period) for table in (one, other)}
    return len(kinds) == 1
