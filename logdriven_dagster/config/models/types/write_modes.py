"""Write modes: how a window treats the rows that its target already holds.

A table file names its mode (`mode: upsert`). All other code asks the mode and never compares names.
A package registers a `WriteMode` as an entry point of the group `logdriven.write_modes`
(docs/custom-sources-and-targets.md). Stores remove, add and merge rows as the mode decides.
"""

from dataclasses import dataclass
from functools import cache
from importlib.metadata import EntryPoint
from typing import TYPE_CHECKING, Annotated, Literal, TypeAlias

from pydantic import AfterValidator

from logdriven_dagster.entry_points import entry_points_of
from logdriven_dagster.errors import TerminalStepError, in_brief
from logdriven_dagster.model.windows import TimeWindow

GROUP = "logdriven.write_modes"


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteMode:
    """One mode: which published rows a window removes, and whether its own are added or merged."""

    name: str
    merges_by_key: bool = False
    """True if rows with a known key are updated and others are added; the target needs `key`."""
    replaces_whole_table: bool = False
    """True if the newest window replaces the rows of all others."""
    replaces_own_range: bool = False
    """True if a window replaces all rows whose `window_column` lies in it, of any writer."""
    keeps_history: bool = False
    """True if each version of a row is kept; a window builds on the versions of earlier ones."""
    replaces_other_windows: bool = False
    """True if `replaced_range` is larger than the window, so that windows are written in turn."""

    @property
    def keeps_windows_apart(self) -> bool:
        """True if each row belongs to one window."""
        return not (self.merges_by_key or self.replaces_whole_table)

    @property
    def keeps_lacking_columns(self) -> bool:
        """True if columns that a result lacks keep their values in the rows that it updates."""
        return self.merges_by_key and not self.keeps_history

    @property
    def supports_batching(self) -> bool:
        """True if one batch can write several windows."""
        return self.keeps_windows_apart and not self.replaces_other_windows

    def replaced_range(self, window: TimeWindow) -> TimeWindow:
        """Return the range whose rows a window replaces; it must contain the window.

        Modes that merge rows or replace the whole table do not use it. The same window must have
        the same range in each attempt, so that a rerun leaves the same rows.
        """
        return window

    def range_to_replace(self, window: TimeWindow) -> TimeWindow:
        """Return `replaced_range`. Raises TerminalStepError if it does not contain the window."""
        found = self.replaced_range(window)
        if not found.contains(window):
            raise TerminalStepError(
                f"mode {self.name} replaces {found}, which must contain the window {window}"
            )
        return found


_OURS = {
    each.name: each
    for each in (
        WriteMode(name="append"),
        WriteMode(name="overwrite_window", replaces_own_range=True),
        WriteMode(name="overwrite", replaces_whole_table=True),
        WriteMode(name="upsert", merges_by_key=True),
        WriteMode(name="history", merges_by_key=True, keeps_history=True),
    )
}
_REGISTERED: dict[str, EntryPoint] = {
    point.name: point for point in entry_points_of(GROUP) if point.name not in _OURS
}


@cache
def write_mode(name: str) -> WriteMode:
    """Return the mode of a word. A word of a type of a package keeps windows apart.

    Raises ValueError if a package registers a mode that cannot be used.
    """
    if name in _OURS or name not in _REGISTERED:
        return _OURS.get(name) or WriteMode(name=name)
    point = _REGISTERED[name]
    try:
        found = point.load()
        if not isinstance(found, WriteMode) or found.name != name:
            raise TypeError(f"it must be a WriteMode of the name {name!r}")  # noqa: TRY301
    except Exception as error:  # noqa: BLE001 - a module of a package may raise anything
        problem = in_brief(f"{type(error).__name__}: {error}")
        raise ValueError(f"{point.value} cannot be used: {problem}") from None
    return found


def is_registered(name: str) -> bool:
    """Return True if a package registers the mode."""
    return name in _REGISTERED


def _check_name(name: str) -> str:
    write_mode(name)
    return name


_NAMES = (*_OURS, *_REGISTERED)

if TYPE_CHECKING:
    ModeField: TypeAlias = str
else:
    ModeField = Annotated[Literal[_NAMES], AfterValidator(_check_name)]
