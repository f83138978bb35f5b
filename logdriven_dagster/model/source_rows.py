"""Where the rows of a source belong: to windows, or to none, so that nothing ever reads them."""

from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True, slots=True)
class SourceRows:
    """The rows of one step's source, counted when somebody looked at all of them."""

    table: str
    step_id: str
    total: int
    unplaced: int
    """NULL, or a value that means no time, in the column that decides their window."""
    before: int
    """Before `default_start`."""
    after: int
    """From `end` on."""
    future: int
    """From the data clock on: windows to come will read them."""
    digest: str | None = None
    """A hash of the files that were looked at, and of what was asked."""
    done: int | None = None
    """In windows that are done; only an audit asks."""
    read: int | None = None
    """What the latest attempts at those windows read; None where that cannot be compared."""
    looked_at: datetime | None = None
    """When, in UTC."""

    @property
    def late(self) -> int:
        """Rows of windows that are done which those have not read."""
        if self.done is None or self.read is None:
            return 0
        return max(self.done - self.read, 0)

    @property
    def gone(self) -> int:
        """Rows that windows have read and that the source does not hold any more."""
        if self.done is None or self.read is None:
            return 0
        return max(self.read - self.done, 0)

    @property
    def pending(self) -> int | None:
        """Rows that windows to come will read, those in the future included."""
        return None if self.done is None else self.total - self.outside - self.done

    @property
    def outside(self) -> int:
        """Rows that belong to no window."""
        return self.unplaced + self.before + self.after

    @property
    def lost(self) -> int:
        """Rows that no window has read, nor ever will by itself."""
        return self.outside + self.late

    @property
    def message(self) -> str:
        """`3 of 2,222 rows belong to no window: 2 with NULL, …`; empty if no row is amiss."""
        parts = []
        if self.outside:
            kinds = (
                (self.unplaced, "with NULL or an invalid value"),
                (self.before, "before the first window"),
                (self.after, "after the last window"),
            )
            which = ", ".join(f"{number:,} {kind}" for number, kind in kinds if number)
            parts.append(f"{self.outside:,} of {self.total:,} rows belong to no window: {which}")
        if self.late:
            parts.append(f"{self.late:,} rows came after their windows had run")
        if self.gone:
            parts.append(
                f"{self.gone:,} rows that windows have read are not in the source any more"
            )
        return "; ".join(parts)
