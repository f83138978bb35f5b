"""The effects of edited files before they are applied: classes, readers, windows and their cost."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from typing import Any

from sqlalchemy.engine import Connection

from logdriven_dagster.config.changes.contracts import find_broken_contracts
from logdriven_dagster.config.changes.fields import Effect, get_project_effect
from logdriven_dagster.config.changes.readers import Reader, find_readers
from logdriven_dagster.config.changes.tables import (
    TableChange,
    compare_tables,
    find_largest_effect,
)
from logdriven_dagster.config.models.tables import TableConfig
from logdriven_dagster.config.project import Project
from logdriven_dagster.execution.definitions.old_windows import OldWindows, find_old_windows
from logdriven_dagster.execution.definitions.registering import Registered
from logdriven_dagster.execution.definitions.removed_tables import (
    RemovedTable,
    find_removed_tables,
)
from logdriven_dagster.execution.logs import read_logs
from logdriven_dagster.model.attempts import Trigger
from logdriven_dagster.model.definitions import (
    Kind,
    Operation,
    VersionChange,
    list_content_differences,
)
from logdriven_dagster.planning.plan import plan
from logdriven_dagster.runlog.history.costs import WindowCost, read_window_costs
from logdriven_dagster.runlog.history.window_versions import count_windows_by_version


@dataclass(frozen=True, slots=True)
class Recomputation:
    """The cost of running windows of one table again."""

    table: str
    windows: int
    rows: int
    seconds: float

    def as_json(self) -> dict[str, Any]:
        """Return an item of `recomputation` in JSON."""
        seconds = round(self.seconds, 3)
        return {"table": self.table, "windows": self.windows, "rows": self.rows, "seconds": seconds}


@dataclass(frozen=True, slots=True)
class ReportedChange:
    """An edited table, or the project, with the effects of the edit."""

    name: str
    kind: Kind
    operation: Operation
    effect: Effect
    changes: tuple[TableChange, ...]
    readers: tuple[Reader, ...] = ()
    old: OldWindows | None = None
    """The finished windows that the change makes old; None if it makes none."""
    restated: int = 0
    """The number of windows that `on_change` runs again."""
    recomputation: tuple[Recomputation, ...] = ()
    """The cost of running all old windows again, and the windows of readers behind them."""
    gone: tuple[str, ...] = ()
    """The reasons why some windows cannot be recomputed."""
    remains: RemovedTable | None = None
    """The attempts and rows that a deleted table leaves behind."""

    def as_json(self) -> dict[str, Any]:
        """Return an item of `logdriven changes --json`."""
        return {
            "name": self.name,
            "kind": self.kind.value.lower(),
            "operation": self.operation.value,
            "effect": self.effect.label,
            "changes": [
                {
                    "effect": change.effect.label,
                    "change": change.what,
                    "step": change.step,
                    "columns": None if change.columns is None else list(change.columns),
                }
                for change in self.changes
            ],
            "seen_by": [
                {
                    "table": reader.table,
                    "columns": None if reader.columns is None else list(reader.columns),
                    "through": reader.through,
                }
                for reader in self.readers
            ],
            "old_windows": None if self.old is None else self.old.as_json(),
            "restated": self.restated,
            "recomputation": [each.as_json() for each in self.recomputation],
            "not_recomputable": list(self.gone),
            "remains": None if self.remains is None else asdict(self.remains),
        }


def report_changes(registered: Registered, now: datetime) -> list[ReportedChange]:
    """Return the effects of the changes that applying the files would write; reads only.

    A renamed table is compared with the version of its earlier name.
    """
    project = registered.project
    tables = [change for change in registered.changes if change.kind is Kind.TABLE]
    pairs = list(_pair_renamed(project, tables))
    names = [change.name for _, change in pairs if change.after is not None]
    old = find_old_windows(registered.run_log, project, names)
    readers = {
        change.name: find_readers(project, change.name, _compare(before, change))
        for before, change in pairs
        if change.after is not None
    }
    asked = list(dict.fromkeys([*names, *(r.table for of in readers.values() for r in of)]))
    costs, restated, finished = registered.run_log.ask(
        lambda conn: _read_costs(conn, project, asked, names, now)
    )
    found = [
        replace(
            _report_table(project, before, change, readers.get(change.name, ())),
            old=old.get(change.name),
            restated=restated.get(change.name, 0),
        )
        for before, change in pairs
    ]
    found = [_add_costs(project, each, costs, finished) for each in found]
    if any(each.operation is Operation.DELETE for each in found):
        left = {each.table: each for each in find_removed_tables(registered)}
        found = [replace(each, remains=left.get(each.name)) for each in found]
    return [*_report_project(registered.changes), *found]


def _pair_renamed(
    project: Project, changes: Sequence[VersionChange]
) -> Iterator[tuple[str | None, VersionChange]]:
    """Yield the content before each change, and the change; a rename is one change."""
    deleted = {each.name: each for each in changes if each.operation is Operation.DELETE}
    renamed = set()
    for change in changes:
        table = project.tables.get(change.name)
        earlier = deleted.get(table.renamed_from or "") if table is not None else None
        if change.operation is Operation.ADD and earlier is not None:
            renamed.add(earlier.name)
            yield earlier.before, change
        elif change.operation is not Operation.DELETE:
            yield change.before, change
    for name, change in deleted.items():
        if name not in renamed:
            yield change.before, change


def _compare(before: str | None, change: VersionChange) -> tuple[TableChange, ...]:
    if before is None or change.after is None:
        return ()
    return compare_tables(json.loads(before), json.loads(change.after))


def _report_table(
    project: Project,
    before: str | None,
    change: VersionChange,
    readers: tuple[Reader, ...],
) -> ReportedChange:
    lost = TableChange(Effect.SHAPE, "the table is deleted")
    changes = (lost,) if change.after is None else _compare(before, change)
    after = None if change.after is None else project.tables[change.name]
    content = None if before is None else json.loads(before)
    broken = tuple(find_broken_contracts(project, content, after, changes, readers))
    changes = (*broken, *changes)
    return ReportedChange(
        change.name,
        Kind.TABLE,
        change.operation,
        find_largest_effect(changes),
        changes,
        readers,
        gone=() if after is None else tuple(_list_gone(after)),
    )


def _list_gone(table: TableConfig) -> Iterator[str]:
    """Yield the reasons why windows of a table cannot be made again as they were."""
    if table.incremental.is_snapshot:
        yield "earlier snapshots: the source has only its present rows"
    for step in table.steps:
        source = step.source
        if source is None:
            continue
        action = getattr(source, "after_success", "keep")
        if action != "keep":
            verb = {"delete": "deletes", "move": "moves"}[action]
            yield f"windows whose files step {step.step} {verb} after success"
        if source.type == "kafka":
            yield "windows whose messages the topic does not keep any more"


def _read_costs(
    conn: Connection, project: Project, asked: Sequence[str], edited: Sequence[str], now: datetime
) -> tuple[dict[str, WindowCost], dict[str, int], dict[str, int]]:
    """Return the costs of windows, the number that `on_change` restates, and of finished ones."""
    planned = plan(project.tables, read_logs(conn, project, edited), now, edited)
    restated = {
        name: sum(trigger is Trigger.RESTATE for _, trigger in each.reruns)
        for name, each in planned.tables.items()
    }
    counts = count_windows_by_version(conn, asked)
    finished = {name: sum(count.windows for count in of) for name, of in counts.items()}
    return read_window_costs(conn, asked), restated, finished


def _add_costs(
    project: Project,
    change: ReportedChange,
    costs: Mapping[str, WindowCost],
    finished: Mapping[str, int],
) -> ReportedChange:
    """Add the cost of running the old windows again, and that of the readers that follow."""
    if change.old is None:
        return replace(change, gone=())
    following = [
        (reader.table, finished.get(reader.table, 0))
        for reader in change.readers
        if project.tables[reader.table].on_upstream_refresh == "rerun"
    ]
    found = []
    for name, windows in [(change.name, change.old.windows), *following]:
        if windows and (cost := costs.get(name)):
            seconds = windows * cost.seconds
            found.append(Recomputation(name, windows, windows * cost.written, seconds))
    return replace(change, recomputation=tuple(found))


def _report_project(changes: Sequence[VersionChange]) -> Iterator[ReportedChange]:
    """Yield the change of the project file, whose fields are shared by all tables."""
    for change in changes:
        if change.kind is not Kind.PROJECT or change.before is None or change.after is None:
            continue
        differing = list_content_differences(json.loads(change.before), json.loads(change.after))
        found = tuple(
            TableChange(get_project_effect(each.path), f"changed {each.path}", ages_windows=False)
            for each in differing
        )
        found = tuple(sorted(found, key=lambda each: -each.effect))
        largest = find_largest_effect(found)
        yield ReportedChange(change.name, Kind.PROJECT, change.operation, largest, found)
