"""Distribution of a source's rows over windows, including rows outside any window."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime
from enum import Enum
from typing import NamedTuple

ABSENT = -1
"""The size of a place that has no file or folder."""


class FileVersion(NamedTuple):
    """A version of a file. Times are in nanoseconds since 1970."""

    path: str
    size: int
    changed: int
    """The last change of the file or its attributes, which programs cannot set.

    For a file in an object store, a hash of its entity tag, size and time.
    """
    modified: int
    """The last change of its content, which `cp -p` and `rsync -t` copy."""

    @property
    def content(self) -> int:
        """A number that differs between versions of the content with the same size.

        Object stores return times in seconds: two versions may have the same time.
        """
        return self.changed if "://" in self.path else self.modified

    def has_same_content(self, other: "FileVersion") -> bool:
        """Return True if the content is the same, as after `chmod`, by its size and `content`."""
        return (self.size, self.content) == (other.size, other.content)


class FileChange(str, Enum):
    """A change of a source's file after windows read the source."""

    CHANGED = "changed"
    """The file has another size or modification time."""
    NEW = "new"
    """The file arrived after its windows had run."""
    GONE = "gone"
    """The file does not exist any more."""


@dataclass(frozen=True, slots=True)
class FileRows:
    """The rows of one version of a file, by their window column."""

    location: str
    """The name of the file in Spark's rows, a URI; empty for a file without rows."""
    version: FileVersion
    total: int = 0
    unplaced: int = 0
    before: int = 0
    after: int = 0
    first: int | str | None = None
    """The least position of a row with a time; see `WindowValues.position`. None without one."""
    last: int | str | None = None
    """The greatest position."""
    footer: str | None = field(default=None, repr=False)
    """The content of its footer; None for a format without one. See `footer_texts`."""

    def may_hold(self, first: int | str, end: int | str) -> bool:
        """Return True if a row may lie in the positions `[first, end)`."""
        if self.first is None or self.last is None:
            return False
        return self.first < end and self.last >= first  # type: ignore[operator]


class ChangedFile(NamedTuple):
    """A change of a file, with the rows of its earlier or its new version."""

    change: FileChange
    rows: FileRows
    job_id: int | None = None
    """The last attempt that may have read an earlier version; None for any attempt."""


@dataclass(frozen=True, slots=True)
class SourceRows:
    """The rows of one step's source, counted when all of them were read."""

    table: str
    step_id: str
    total: int
    unplaced: int
    """Rows without a window: NULL or an invalid time in the window column."""
    before: int
    """Rows before `default_start`."""
    after: int
    """Rows from `end` on."""
    future: int
    """Rows from the data clock on, which later windows will read."""
    digest: str | None = None
    """Hash of the settings that determine the counts; also of the files, if not counted by file."""
    done: int | None = None
    """Rows in finished windows; only counted by an audit."""
    read: int | None = None
    """Rows that the latest attempts at those windows read; None if not comparable."""
    looked_at: datetime | None = None
    """Time of the count, in UTC."""
    files: tuple[FileRows, ...] = field(default=(), repr=False)
    """The rows of each file, if they were counted by file."""
    is_partial: bool = False
    """True if other windows read other files."""

    @property
    def late(self) -> int:
        """Rows in finished windows that were not read by them."""
        if self.done is None or self.read is None:
            return 0
        return max(self.done - self.read, 0)

    @property
    def gone(self) -> int:
        """Rows that windows have read and that are no longer in the source."""
        if self.done is None or self.read is None:
            return 0
        return max(self.read - self.done, 0)

    @property
    def pending(self) -> int | None:
        """Rows that pending and future windows will read."""
        return None if self.done is None else self.total - self.outside - self.done

    @property
    def outside(self) -> int:
        """Rows outside any window."""
        return self.unplaced + self.before + self.after

    @property
    def lost(self) -> int:
        """Rows that no window has read or will read without intervention."""
        return self.outside + self.late

    @property
    def message(self) -> str:
        """Summary such as `3 of 2,222 rows belong to no window: 2 with NULL`; may be empty."""
        parts = []
        if self.outside:
            kinds = (
                (self.unplaced, "with NULL or an invalid value"),
                (self.before, "before the first window"),
                (self.after, "after the last window"),
            )
            which = ", ".join(f"{number:,} {kind}" for number, kind in kinds if number)
            parts.append(
                f"{self.outside:,} of {self.total:,} rows do not belong to any window: {which}"
            )
        if self.late:
            parts.append(f"{self.late:,} rows arrived after their windows ran")
        if self.gone:
            parts.append(f"{self.gone:,} rows that windows read are not in the source any more")
        return "; ".join(parts)


def sum_files(
    table: str, step_id: str, digest: str, files: Iterable[FileRows], *, is_partial: bool = False
) -> SourceRows:
    """Return the rows of a source, which are those of its files."""
    known = tuple(sorted(files, key=lambda file: file.version))
    return SourceRows(
        table,
        step_id,
        total=sum(file.total for file in known),
        unplaced=sum(file.unplaced for file in known),
        before=sum(file.before for file in known),
        after=sum(file.after for file in known),
        future=0,
        digest=digest,
        files=known,
        is_partial=is_partial,
    )
