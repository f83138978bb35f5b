"""Write modes: how a window treats the rows that its target already holds.

A table file names its mode (`mode: upsert`). All other code asks the mode for its capabilities and
never compares names.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteMode:
    """The capabilities of one mode."""

    name: str
    merges_by_key: bool = False
    """True if rows with a known key are updated and others are added; the target needs `key`."""
    replaces_whole_table: bool = False
    """True if the newest window replaces the rows of all others."""
    replaces_own_range: bool = False
    """True if a window replaces all rows whose `window_column` lies in it, of any writer."""

    @property
    def keeps_windows_apart(self) -> bool:
        """True if each row belongs to one window, so that one batch can write several windows."""
        return not (self.merges_by_key or self.replaces_whole_table)


_ALL = (
    WriteMode(name="append"),
    WriteMode(name="overwrite_window", replaces_own_range=True),
    WriteMode(name="overwrite", replaces_whole_table=True),
    WriteMode(name="upsert", merges_by_key=True),
)
_BY_NAME = {each.name: each for each in _ALL}


def write_mode(name: str) -> WriteMode:
    """Return the mode of a word. A word of a type of a package keeps windows apart."""
    return _BY_NAME.get(name) or WriteMode(name=name)
