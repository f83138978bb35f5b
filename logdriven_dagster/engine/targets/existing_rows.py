"""What plans tell of targets that others have filled: before anything runs, and without Spark.

Databases are asked side by side, each in a thread that nobody has to wait for, so that one that
does not answer costs a plan a few seconds and a line that says so.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from threading import Thread
from time import monotonic
from typing import TYPE_CHECKING, Any, TypeAlias

from logdriven_dagster.config.derived.needs import Need
from logdriven_dagster.config.locations import as_path
from logdriven_dagster.config.models.steps import (
    FileTarget,
    IcebergTarget,
    JdbcTarget,
    KafkaTarget,
)
from logdriven_dagster.config.project import Project
from logdriven_dagster.engine.databases.connections import database
from logdriven_dagster.engine.databases.tables import reflected
from logdriven_dagster.engine.failures import step_error
from logdriven_dagster.engine.targets.files.pointers import file_of_others
from logdriven_dagster.engine.targets.files.table import files_folder
from logdriven_dagster.engine.targets.first_contact import HOW_TO_DECIDE, stay_beside
from logdriven_dagster.engine.targets.iceberg.catalog import is_listed, load_existing, open_catalog
from logdriven_dagster.engine.targets.iceberg.first_contact import unknown_files
from logdriven_dagster.engine.targets.iceberg.table import identifier
from logdriven_dagster.engine.targets.jdbc.first_contact import holds_others
from logdriven_dagster.errors import LogdrivenError, in_brief

if TYPE_CHECKING:
    from sqlalchemy.engine import URL

_PATIENCE_SECONDS = 5


@dataclass(frozen=True, slots=True)
class ExistingRows:
    """Rows of others in the targets of some tables, and what will become of them."""

    tables: tuple[str, ...]
    text: str


_Targets: TypeAlias = "list[tuple[str, Any]]"
"""Tables with a target of each, all of one place."""


def existing_rows(project: Project, tables: Iterable[str]) -> Iterator[ExistingRows]:
    """What is to be told of the targets of tables of which no window has been published yet."""
    places: dict[Need, _Targets] = {}
    for name in tables:
        for step in project.tables[name].steps:
            match target := step.target:
                case JdbcTarget():
                    need = Need("connection", target.connection)
                    places.setdefault(need, []).append((name, target))
                case IcebergTarget():
                    places.setdefault(Need("catalog"), []).append((name, target))
                case FileTarget():
                    yield from _in_folder(project, name, target)
                case KafkaTarget() | None:
                    pass
    yield from _in_databases(project, places)


def _in_folder(project: Project, table: str, target: FileTarget) -> Iterator[ExistingRows]:
    try:
        folder = files_folder(project, table, target)
        other = file_of_others(folder)
    except (LogdrivenError, OSError) as error:
        yield _unknown((table,), str(error))
        return
    if other:
        keep = target.existing_rows == "keep"
        then = "it stays there unread" if keep else "the first window will be refused"
        yield ExistingRows(
            (table,), f"{as_path(folder)} holds {other}, which no window wrote: {then}"
        )


def _in_databases(project: Project, places: dict[Need, _Targets]) -> Iterator[ExistingRows]:
    looks = [_Look(project, place, targets) for place, targets in places.items()]
    for look in looks:
        look.start()
    deadline = monotonic() + _PATIENCE_SECONDS
    for look in looks:
        look.join(max(0.0, deadline - monotonic()))
        yield from look.told()


class _Look(Thread):
    """One look at all targets of a connection or of the catalog."""

    def __init__(self, project: Project, place: Need, targets: _Targets) -> None:
        super().__init__(name=f"existing rows of {place}", daemon=True)
        self._project, self._place, self._targets = project, place, targets
        self._held: list[bool] = []
        """Whether each target that was looked at holds rows of others."""
        self._error: str | None = None

    def run(self) -> None:
        """Look at one target after the other; an error ends it."""
        look = _of_database if self._place.kind == "connection" else _of_catalog
        try:
            for held in look(self._project, self._place, self._targets):
                self._held.append(held)
        except Exception as error:  # noqa: BLE001 - drivers raise whatever they like
            self._error = in_brief(str(step_error(error)))

    def told(self) -> Iterator[ExistingRows]:
        """What was found so far, and what was not looked at."""
        found = list(self._held)
        for (table, target), held in zip(self._targets, found, strict=False):
            if held:
                yield ExistingRows((table,), _what_becomes(table, target))
        if left := tuple(dict.fromkeys(table for table, _ in self._targets[len(found) :])):
            why = self._error or f"no answer within {_PATIENCE_SECONDS} s"
            yield _unknown(left, f"{self._place}: {why}")


def _unknown(tables: tuple[str, ...], why: str) -> ExistingRows:
    return ExistingRows(tables, f"whether others have filled the target is not known: {why}")


def _of_database(project: Project, place: Need, targets: _Targets) -> Iterator[bool]:
    connection = project.connection(place.name)
    if _is_no_file(connection.url):
        yield from (False for _ in targets)
        return
    with database(connection) as engine, engine.connect() as conn:
        for _, target in targets:
            schema, _, name = target.table.rpartition(".")
            table = reflected(name, schema or None, conn)
            yield table is not None and holds_others(conn, table)


def _of_catalog(project: Project, _place: Need, targets: _Targets) -> Iterator[bool]:
    """PyIceberg, which takes a second to load, is asked about tables that the catalog lists."""
    if _is_no_file(project.catalog_url):
        yield from (False for _ in targets)
        return
    for name, target in targets:
        known = identifier(target.name or name)
        table = load_existing(open_catalog(project), known) if is_listed(project, known) else None
        yield table is not None and bool(unknown_files(table))


def _what_becomes(table: str, target: IcebergTarget | JdbcTarget) -> str:
    """What the first windows do with rows of others, by the target's mode and decision."""
    name = target.table if isinstance(target, JdbcTarget) else target.name or table
    holds = f"{name} holds rows that no window wrote"
    if not stay_beside(target):
        return f"{holds}: {_stay_or_go(target)}"
    if target.existing_rows == "replace":
        return f"{holds}: the first window will remove them all"
    if isinstance(target, JdbcTarget) and target.pre_sql:
        return f"{holds}: the first window will be refused unless its pre_sql removes them"
    return f"{holds}: the first window will be refused. {HOW_TO_DECIDE}"


def _stay_or_go(target: IcebergTarget | JdbcTarget) -> str:
    match target.mode:
        case "upsert":
            return "those with a key that comes will be updated, the others stay"
        case "overwrite":
            return "the first window will replace them all"
        case _ if target.existing_rows == "keep":
            return "they stay beside what is loaded"
        case _:
            return f"those whose {target.window_column} lies in a window go with it, others stay"


def _is_no_file(url: "URL") -> bool:
    """Whether it is a database of SQLite that is not there: to look would make it."""
    return url.get_backend_name() == "sqlite" and not Path(url.database or "").is_file()
