"""Parameters and results of maintenance: a text for people, and numbers for the log."""

from dataclasses import dataclass

_MEGABYTE = 1_000_000


@dataclass(frozen=True, slots=True)
class Upkept:
    """Result of a maintenance statement, function or upkeep, or of its dry run."""

    text: str = ""
    rows: int = 0
    """Rows that were written, changed or moved."""
    files: int = 0
    """Files that were removed or rewritten."""
    bytes: int = 0
    """Total size of these files in bytes."""
    table: str = ""
    """The table, if the upkeep concerns a single one."""


@dataclass(frozen=True, slots=True)
class Expiry:
    """Minimum history of a table to keep, regardless of age."""

    keep: int = 1
    """Number of newest snapshots to keep."""

    def __post_init__(self) -> None:
        if self.keep < 1:
            raise ValueError("keep: must be at least 1, the current snapshot")


@dataclass(frozen=True, slots=True)
class Compaction:
    """Criteria for files to compact."""

    min_files: int = 5
    """Minimum number of small files in a window to compact it."""
    target_size: int = 128 * _MEGABYTE
    """Intended size of files in bytes; three quarters of it count as large enough."""

    def __post_init__(self) -> None:
        if self.min_files < 2:
            raise ValueError("min_files: must be at least 2")
        if self.target_size < 1:
            raise ValueError("target_size: must be at least 1 byte")
