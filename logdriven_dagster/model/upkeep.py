"""What upkeep is to do, and what it did: a text for people, and numbers for the log."""

from dataclasses import dataclass

_MEGABYTE = 1_000_000


@dataclass(frozen=True, slots=True)
class Upkept:
    """What a statement, function or upkeep of a maintenance job did, or would do."""

    text: str = ""
    rows: int = 0
    """Rows that were written, changed or moved."""
    files: int = 0
    """Files that were removed or rewritten."""
    bytes: int = 0
    """The size of these files."""
    table: str = ""
    """The table, where upkeep is of one."""


@dataclass(frozen=True, slots=True)
class Expiry:
    """How much of a table's history stays, whatever its age."""

    keep: int = 1
    """How many of the newest snapshots stay at any age."""

    def __post_init__(self) -> None:
        if self.keep < 1:
            raise ValueError("keep: at least the current snapshot stays")


@dataclass(frozen=True, slots=True)
class Compaction:
    """Which files are worth writing anew."""

    min_files: int = 5
    """A window's small files are left alone while there are fewer."""
    target_size: int = 128 * _MEGABYTE
    """Bytes that a file should have; one of three quarters of it counts as large enough."""

    def __post_init__(self) -> None:
        if self.min_files < 2:
            raise ValueError("min_files: a single file cannot become fewer")
        if self.target_size < 1:
            raise ValueError("target_size: it must be at least one byte")
