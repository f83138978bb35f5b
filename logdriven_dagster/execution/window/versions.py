"""The version of a table that an attempt runs, with the settings in force.

Pending windows run the version in force: users who fix a file expect the fixed file to run. Source:
DolphinScheduler: a run carries the versions that it ran, and a rerun of that run has them again.
Here `retry_version: recorded` enables this.
"""

from dataclasses import dataclass, replace

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


@dataclass(frozen=True, slots=True)
class VersionToRun:
    """The version of a table that an order runs, read from the run log."""

    conn: Connection
    order: Order

    def prepare_order(self) -> Order:
        """Return the order with the version to run and the settings in force; reads only.

        Raises DisabledError if the table is disabled.
        """
        order, project, name = self.order, self.order.project, self.order.table.table
        if project.version(Kind.TABLE, name) is None:
            _refuse_disabled(order.table)
            return order
        settings = definitions.read_settings(self.conn, project.name, Kind.TABLE, [name])
        version = self.find_recorded()
        if version is not None:
            project = self._load_at(version)
        table = project.table(name)
        if name in settings:
            table = apply_settings(table, settings[name])
        _refuse_disabled(table)
        table = self._apply_job(table)
        if table is not project.table(name):
            project = project.with_tables({name: table})
        return replace(order, project=project, table=table)

    def find_recorded(self) -> int | None:
        """Return the version of the last attempt if it runs again and is not the current one."""
        if self._retry_version == "latest":
            return None
        name = self.order.table.table
        last = find_last_version(self.conn, name, self.order.window)
        if last is None or last[0] not in _TRIED_AGAIN:
            return None
        present = self.order.project.version(Kind.TABLE, name)
        return None if last[1] in (None, present) else last[1]

    @property
    def _retry_version(self) -> RetryVersion:
        return self.order.arguments.retry_version or self._apply_job(self.order.table).retry_version

    def _apply_job(self, table: TableConfig) -> TableConfig:
        """Return the table with the settings of the job that runs it, if one does."""
        run = self.order.arguments.job_run
        if run is None:
            return table
        return apply_job_settings(table, self.order.project.standard_job(run.job))

    def _load_at(self, version: int) -> Project:
        """Return the project with an earlier version of the table, if it has the same windows."""
        project, name = self.order.project, self.order.table.table
        code = build_code(project.name, Kind.TABLE, name)
        content = definitions.read_content(self.conn, Kind.TABLE, code, version)
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
        note = _version_note(version, project.versions[code])
        return replace(
            project,
            tables={**project.tables, name: table},
            files={**project.files, name: document.path},
            versions={**project.versions, code: version},
            other_versions={**project.other_versions, name: note},
        )


def _refuse_disabled(table: TableConfig) -> None:
    if not table.enabled:
        fix = f"enable it with `logdriven enable {table.table}`"
        raise DisabledError(f"{table.table} is disabled; {fix}")


def _version_note(version: int, present: int) -> str:
    return f"version {version}, as in its last attempt, not version {present}, which is in force"


def _same_windows(one: TableConfig, other: TableConfig) -> bool:
    kinds = {(table.incremental_type, table.period) for table in (one, other)}
    return len(kinds) == 1
