"""Changed targets: tables whose finished windows were read or written in another way.

Rows stay unchanged when the mode, key, window column or place of a target changes. A rerun replaces
rows by the new rule alone, which may miss those of the old one. Slices of keys continue above the
last key, even if that is a key of another column or source.
"""

import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from sqlalchemy import func, select
from sqlalchemy.engine import Connection

from logdriven_dagster.config.checking.documents import validate_table
from logdriven_dagster.config.derived.contents import write_registered
from logdriven_dagster.config.derived.places import place_of_target
from logdriven_dagster.config.models.tables import TableConfig
from logdriven_dagster.config.models.types.targets import Target
from logdriven_dagster.config.project import Project
from logdriven_dagster.config.project_files import get_definitions_folder
from logdriven_dagster.errors import InvalidProjectError, RunLogError
from logdriven_dagster.execution.definitions.homes import look_at_run_log
from logdriven_dagster.model.attempts import Status
from logdriven_dagster.model.definitions import Kind, Version, build_code
from logdriven_dagster.model.windows import Along, TimeWindow, refresh_command
from logdriven_dagster.runlog import RunLog
from logdriven_dagster.runlog.definitions import history
from logdriven_dagster.runlog.schema.attempts import job_log
from logdriven_dagster.runlog.sql.projects import match_project

_OF_LOWER_KEYS = "the next window begins after the last key; rows with lower keys are not loaded"
_COLUMNS = ("key", "window_column")
"""The fields with names of columns in a query's result, which match in any case."""
_OF_BOTH_TYPES = "windows of both types, or of neither, may load a row"


@dataclass(frozen=True, slots=True)
class ChangedTarget:
    """A table with finished windows whose rows were written in another way."""

    table: str
    was: str
    now: str
    effect: str
    """The effect of the new way on rows written in the old one."""
    span: TimeWindow | None
    """The range of those windows; None if they are not windows of time."""

    @property
    def description(self) -> str:
        """The change and the command that writes all rows in the new way, for display."""
        said = f"finished windows were written with {self.was}, but the definition has {self.now}"
        if self.span is None:
            return f"{said}: {self.effect}"
        command = refresh_command(self.table, self.span)
        return f"{said}: {self.effect}; {command} rewrites all of them"

    @property
    def text(self) -> str:
        """One sentence for display that begins with the table."""
        return f"{self.table}: {self.description}"


def list_changed_targets(
    run_log: RunLog, project: Project, names: Iterable[str]
) -> list[ChangedTarget]:
    """Find the tables whose finished windows were written in another way; reads only.

    The log is queried only for tables of which the registry has a version with another target.
    """
    revised = _list_revised(project, names)
    return run_log.ask(lambda conn: list(_find_changes(conn, project, revised))) if revised else []


def find_changed_at_load(project: Project) -> dict[str, ChangedTarget]:
    """Find the changed targets of a project whose run log may not exist or be reachable."""
    try:
        names = _list_revised(project, project.tables)
        run_log = look_at_run_log(project) if names else None
        if run_log is None:
            return {}
        return {changed.table: changed for changed in list_changed_targets(run_log, project, names)}
    except RunLogError:
        return {}


def _list_revised(project: Project, names: Iterable[str]) -> list[str]:
    """Return the tables, of these, that have more than one version or another name before."""
    return [
        name
        for name in names
        if name in project.tables
        and ((project.version(Kind.TABLE, name) or 1) > 1 or project.table(name).renamed_from)
    ]


def _find_changes(
    conn: Connection, project: Project, names: Iterable[str]
) -> Iterator[ChangedTarget]:
    codes: dict[str, tuple[str, str]] = {}
    for name in names:
        # Until a rename is applied, versions and windows have the earlier name.
        for logged in filter(None, (name, project.table(name).renamed_from)):
            codes[build_code(project.name, Kind.TABLE, logged)] = name, logged
    earlier: dict[tuple[str, str], list[Version]] = {}
    for version in history.list_versions(conn, Kind.TABLE, codes):
        earlier.setdefault(codes[version.code], []).append(version)
    for (name, logged), versions in earlier.items():
        table, differing = project.table(name), {}
        known = [(each.version, load_recorded_table(project, each)) for each in versions]
        readable = [(number, before) for number, before in known if before is not None]
        for n, (number, _) in enumerate(readable):
            later = [each for _, each in readable[n:]]
            if change := _change(project, [*later, table]):
                differing[number] = change
        yield from _find_written(conn, table, logged, differing)


def load_recorded_table(project: Project, version: Version) -> TableConfig | None:
    """Return the table of a version with its name then; None if this release cannot read it."""
    folder, content = get_definitions_folder(project.root), json.loads(version.content)
    name = content["values"].get("table", version.name)
    try:
        document = write_registered(folder, project.name, Kind.TABLE, name, content)
        return validate_table(document, project.zone)
    except InvalidProjectError:
        return None


def list_table_versions(project: Project, run_log: RunLog, name: str) -> list[Version]:
    """Return the versions of a table in the registry, the oldest first."""
    code = build_code(project.name, Kind.TABLE, name)
    return run_log.ask(lambda conn: history.list_versions(conn, Kind.TABLE, [code]))


def find_readable_table(
    project: Project, versions: Sequence[Version], version: int | None = None
) -> TableConfig | None:
    """Return the table of the newest version that can be read, or of a given one; None if none."""
    readable = (
        table
        for each in reversed(versions)
        if version in (None, each.version)
        and (table := load_recorded_table(project, each)) is not None
    )
    return next(readable, None)


def _change(project: Project, tables: Sequence[TableConfig]) -> tuple[str, str, str] | None:
    """Return the two ways of the first changed step, and the effect; None if none has changed.

    `tables` are a version, all later ones, and the present definition.
    """
    before, table = tables[0], tables[-1]
    if before.incremental_type != table.incremental_type:
        was, now = (f"incremental_type {each.incremental_type}" for each in (before, table))
        return was, now, _OF_BOTH_TYPES
    if differing := _difference(_keys(before), _keys(table)):
        return *differing[1:], _OF_LOWER_KEYS
    for step in table.steps:
        old, new = _target_of(before, step.step), step.target
        if old is None or new is None:
            continue
        name = _find_name_of_place(tables, step.step)
        was_way, way = _way(name, old), _way(table.table, new)
        places = [place_of_target(project, *each) for each in ((name, old), (table.table, new))]
        if places[0] is not None and places[0] == places[1]:
            was_way = {**was_way, "place": way["place"]}
        if differing := _difference(was_way, way):
            changed, was, now = differing
            return was, now, _effect(changed, new)
    return None


def _target_of(table: TableConfig, step: str) -> Target | None:
    return next((each.target for each in table.steps if each.step == step), None)


def _find_name_of_place(tables: Sequence[TableConfig], step: str) -> str:
    """Return the name of the table by which the rows of its first version are placed.

    Rows follow a rename unless the target changes with it.
    """
    name, target = tables[0].table, _target_of(tables[0], step)
    for each in tables[1:]:
        new = _target_of(each, step)
        if each.table == name:
            target = new
            continue
        if target is None or new is None or type(target) is not type(new):
            return name
        if target.place(name) != new.place(name):
            return name
        name, target = each.table, new
    return name


def _difference(
    one: Mapping[str, str], other: Mapping[str, str]
) -> tuple[list[str], str, str] | None:
    """Return the fields in which two ways differ, and both as texts; None if they are the same."""
    changed = [
        field
        for field in other
        if one[field] != other[field]
        and not (field in _COLUMNS and one[field].lower() == other[field].lower())
    ]
    if not changed:
        return None
    was, now = (", ".join(f"{each} {way[each]}" for each in changed) for way in (one, other))
    return changed, was, now


def _keys(table: TableConfig) -> Mapping[str, str]:
    """Return the source whose keys the slices of a table hold, as texts; empty for other tables."""
    if table.incremental.along is not Along.KEYS:
        return {}
    source = table.sliced_step.source
    assert source is not None
    return {"key_column": str(source.key_column), "source": source.place}


def _effect(changed: Collection[str], target: Target) -> str:
    if "place" in changed or "type" in changed:
        return "their rows are only in the earlier place"
    if target.write_mode.replaces_whole_table:
        return "the next window replaces all of their rows"
    return "if one of them runs again by itself, one of their rows may be there twice"


def _way(table: str, target: Target) -> Mapping[str, str]:
    """Return the way in which a target writes, as texts; the order of key columns means nothing."""
    key = sorted(getattr(target, "key", ()), key=str.lower)
    return {
        "type": target.type,
        "place": target.place(table),
        "mode": target.mode,
        "key": f"[{', '.join(key)}]",
        "window_column": target.window_column or "_window_start",
    }


def _find_written(
    conn: Connection,
    table: TableConfig,
    logged: str,
    differing: Mapping[int, tuple[str, str, str]],
) -> Iterator[ChangedTarget]:
    """Yield the change of the newest version that has finished windows.

    `logged` is the name of the table in the log.
    """
    if not differing:
        return
    rows = conn.execute(
        select(
            job_log.c.table_version,
            func.min(job_log.c.window_start).label("start"),
            func.max(job_log.c.window_end).label("end"),
        )
        .where(
            match_project(job_log),
            job_log.c.job_name == logged,
            job_log.c.latest == 1,
            job_log.c.status == Status.SUCCESS.value,
            job_log.c.window_start.is_not(None),
        )
        .group_by(job_log.c.table_version)
    ).all()
    old = [row for row in rows if row.table_version in differing]
    if not old:
        return
    was, now, effect = differing[max(row.table_version for row in old)]
    newest = max(rows, key=lambda row: row.end)
    if effect == _OF_LOWER_KEYS and newest.table_version not in differing:
        return  # it has continued with the new keys
    span = None
    if not table.is_sliced and effect != _OF_BOTH_TYPES:
        start, end = min(row.start for row in old), max(row.end for row in old)
        span = TimeWindow.from_seconds(start, end, table.grid.zone)
    yield ChangedTarget(table.table, was, now, effect, span)
