"""Old windows: finished windows that an older version of their table made.

A version that differs only cosmetically from the one in force makes no window old; see
`config.changes.fields`.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from sqlalchemy.engine import Connection

from logdriven_dagster.config.project import Project
from logdriven_dagster.errors import RunLogError
from logdriven_dagster.execution.definitions.homes import look_at_run_log
from logdriven_dagster.model.definitions import Kind, build_code
from logdriven_dagster.runlog import RunLog
from logdriven_dagster.runlog.definitions.effects import EffectVersion, read_effect_versions
from logdriven_dagster.runlog.history.window_versions import (
    VersionCount,
    count_windows_by_version,
)

_SHOWN = 3


@dataclass(frozen=True, slots=True)
class OldWindows:
    """The finished windows of a table that older versions made."""

    table: str
    windows: int
    """The number of old windows."""
    finished: int
    """The number of all finished windows."""
    counts: Sequence[VersionCount]
    """The old windows by version, the oldest version first."""
    changes: Mapping[int, str]
    """The changes of the versions since: version → what it changed."""

    @property
    def description(self) -> str:
        """The numbers, and what the newer versions changed: `412 of 730 windows by …`."""
        versions = [count.version for count in self.counts]
        by = f"version {versions[0]}" if len(versions) == 1 else "older versions"
        noun = "window" if self.finished == 1 else "windows"
        listed = [f"{version}: {text}" for version, text in self.changes.items()]
        more = [f"{len(listed) - _SHOWN} more"] if len(listed) > _SHOWN else []
        since = "; ".join([*listed[-_SHOWN:], *more])
        return f"{self.windows:,} of {self.finished:,} {noun} by {by}" + (
            f" ({since})" if since else ""
        )

    @property
    def text(self) -> str:
        """One sentence for display that begins with the table."""
        return f"{self.table}: {self.description}"

    def as_json(self) -> dict[str, Any]:
        """Return `old_windows` of a table in JSON."""
        return {
            "windows": self.windows,
            "finished": self.finished,
            "versions": [
                {"version": count.version, "windows": count.windows} for count in self.counts
            ],
            "changes": [
                {"version": version, "change": text} for version, text in self.changes.items()
            ],
        }


def find_old_windows(
    run_log: RunLog, project: Project, names: Iterable[str]
) -> dict[str, OldWindows]:
    """Return the tables, of these, that have windows by older versions; reads only.

    The log is queried only for tables of which the registry has several versions.
    """
    revised = list_revised_tables(project, names)
    if not revised:
        return {}
    return run_log.ask(partial(_find_old, project=project, names=revised))


def find_old_windows_at_load(project: Project) -> dict[str, OldWindows]:
    """Return the old windows of a project whose run log may not exist or be reachable."""
    try:
        names = list_revised_tables(project, project.tables)
        run_log = look_at_run_log(project) if names else None
        return {} if run_log is None else find_old_windows(run_log, project, names)
    except RunLogError:
        return {}


def list_revised_tables(project: Project, names: Iterable[str]) -> list[str]:
    """Return the tables, of these, whose effect has changed since their first version."""
    return [
        name
        for name in names
        if name in project.tables and (project.version(Kind.TABLE, name) or 1) > 1
    ]


def _find_old(conn: Connection, project: Project, names: Collection[str]) -> dict[str, OldWindows]:
    codes = {build_code(project.name, Kind.TABLE, name): name for name in names}
    effects = {codes[code]: of for code, of in read_effect_versions(conn, codes).items()}
    changed = [name for name, known in effects.items() if list_older_versions(project, name, known)]
    counts = count_windows_by_version(conn, changed)
    found = {}
    for name in changed:
        known, of_table = effects[name], counts.get(name, ())
        old = [c for c in of_table if c.version in list_older_versions(project, name, known)]
        if old:
            finished = sum(count.windows for count in of_table)
            since = _list_changes(known, [count.version or 0 for count in old])
            number = sum(count.windows for count in old)
            found[name] = OldWindows(name, number, finished, tuple(old), since)
    return found


def list_older_versions(
    project: Project, name: str, known: Mapping[int, EffectVersion]
) -> list[int]:
    """Return the versions of a table with another effect than the one in force."""
    present = project.effect_version(name)
    return [version for version, of in known.items() if of.effect_version != present]


def _list_changes(known: Mapping[int, EffectVersion], old: Collection[int]) -> dict[int, str]:
    """Return what the versions after the oldest of some changed, up to the one in force."""
    return {
        version: of.change
        for version, of in sorted(known.items())
        if version > min(old) and of.change is not None
    }
