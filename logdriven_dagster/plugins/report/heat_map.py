"""Heat maps of a report: tables × windows, one map for all tables of the same period."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import median

from logdriven_dagster.config.models.incremental.registered import get_incremental_type
from logdriven_dagster.execution.inspection.plots import PlottedWindow
from logdriven_dagster.execution.notifications import wording as shown

MOST_COLUMNS = 96
"""The maximum number of windows in a heat map: the newest ones."""
MOST_ROWS = 250
"""The maximum number of tables in a heat map, which always includes those with failures."""
LOOK = {
    "SUCCESS": "ok",
    "FAILURE": "failed",
    "RUNNING": "running",
    "DISCARDED": "discarded",
    "SKIPPED": "skipped",
}
_SLOW, _VERY_SLOW = 1.5, 3.0
"""Multiples of the median duration of its table from which a window is shown darker."""
_WIDE = 48
_NARROW = 3
"""The number of columns into which the label of a year fits."""
_NOTICEABLE = 5.0
"""Seconds; shorter windows are never slow."""


@dataclass(frozen=True, slots=True)
class Cell:
    """The last attempt at a window of a table, as a cell of the heat map."""

    look: str
    hint: str


@dataclass(frozen=True, slots=True)
class HeatRow:
    """A table and its windows; None for windows that did not run."""

    table: str
    cells: tuple[Cell | None, ...]


@dataclass(frozen=True, slots=True)
class HeatMap:
    """A heat map of tables with the same period, and so with the same windows."""

    period: str
    columns: tuple[str, ...]
    """The start of each window; empty for slices, which have none in common."""
    ticks: tuple[tuple[str, int], ...]
    """Labels above the columns, with the number of columns that each spans."""
    rows: tuple[HeatRow, ...]
    older: int
    """The number of omitted columns."""
    more: int
    """The number of omitted tables."""

    @property
    def is_dense(self) -> bool:
        """True if cells are narrow, so that all columns fit."""
        return max((len(row.cells) for row in self.rows), default=0) > _WIDE


class TableWindows:
    """The attempts of one table by window, each oldest first."""

    def __init__(self, table: str, attempts: Sequence[shown.Row]) -> None:
        self.table = table
        self.attempts = attempts
        self.by_start: dict[int, list[shown.Row]] = defaultdict(list)
        for row in attempts:
            self.by_start[row["window_start"] or 0].append(row)
        times = [t for row in attempts if (t := shown.seconds(row)) and row["status"] == "SUCCESS"]
        self.median = median(times) if times else None
        self.slowest = max(times, default=None)

    @property
    def latest(self) -> list[shown.Row]:
        return [rows[-1] for rows in self.by_start.values()]

    @property
    def plotted(self) -> list[PlottedWindow]:
        """The newest windows for the plot of their rows, oldest first."""
        starts = sorted(self.by_start)[-MOST_COLUMNS:]
        rows = [self.by_start[start] for start in starts]
        return [PlottedWindow.from_row(each[-1], self._hint(each[-1], len(each))) for each in rows]

    def count(self, status: str) -> int:
        return sum(row["status"] == status for row in self.latest)

    def cell(self, start: int) -> Cell | None:
        if start not in self.by_start:
            return None
        rows = self.by_start[start]
        last = rows[-1]
        return Cell(" ".join(self._looks(rows)), self._hint(last, len(rows)))

    def _looks(self, rows: Sequence[shown.Row]) -> Iterable[str]:
        last = rows[-1]
        yield LOOK.get(last["status"], "skipped")
        if last["status"] != "SUCCESS":
            return
        if any(row["status"] == "FAILURE" for row in rows):
            yield "again"
        took = shown.seconds(last) or 0
        if self.median and took > _NOTICEABLE:
            if took > self.median * _VERY_SLOW:
                yield "veryslow"
            elif took > self.median * _SLOW:
                yield "slow"

    def _hint(self, row: shown.Row, tries: int) -> str:
        read, written = (shown.total(row, name) for name in ("source_count", "success_count"))
        parts = [
            f"{self.table}  {shown.window(row)}",
            f"{row['status']}  {shown.duration(shown.seconds(row))}".strip(),
            f"{number(read)} read, {number(written)} written" if row["steps"] else "",
            f"{tries} attempts" if tries > 1 else "",
            f"job {row['job_id']}",
            shown.error(row).partition("\n")[0][:200],
        ]
        return "\n".join(filter(None, parts))


def heat_maps(tables: Iterable[TableWindows]) -> list[HeatMap]:
    """Return one heat map for each period, the longest first; slices last."""
    groups: dict[tuple[bool, int], list[TableWindows]] = defaultdict(list)
    for table in tables:
        row = table.attempts[-1]
        sliced = get_incremental_type(row["incremental_type"]).is_sliced
        groups[sliced, 0 if sliced else -row["job_period"]].append(table)
    return [_heat_map(groups[key], key) for key in sorted(groups)]


def _heat_map(tables: Sequence[TableWindows], key: tuple[bool, int]) -> HeatMap:
    sliced, minutes = key
    kept = _choose_tables(tables)
    if sliced:
        width = max(len(table.by_start) for table in kept)
        older = max(0, width - MOST_COLUMNS)
        rows = [_row(table, sorted(table.by_start)[-MOST_COLUMNS:]) for table in kept]
        return HeatMap("slices", (), (), tuple(rows), older, len(tables) - len(kept))
    starts = {n: row for table in tables for n, (row, *_) in table.by_start.items()}
    shown_starts = sorted(starts)[-MOST_COLUMNS:]
    columns = tuple(shown.format_instant(starts[n]["data_range_start"])[:16] for n in shown_starts)
    return HeatMap(
        _period(-minutes),
        columns,
        _ticks(columns),
        tuple(_row(table, shown_starts) for table in kept),
        len(starts) - len(shown_starts),
        len(tables) - len(kept),
    )


def _choose_tables(tables: Sequence[TableWindows]) -> list[TableWindows]:
    if len(tables) <= MOST_ROWS:
        return list(tables)
    worst = sorted(tables, key=lambda table: -table.count("FAILURE"))[:MOST_ROWS]
    chosen = {table.table for table in worst}
    return [table for table in tables if table.table in chosen]


def _row(table: TableWindows, starts: Sequence[int]) -> HeatRow:
    return HeatRow(table.table, tuple(map(table.cell, starts)))


def _ticks(columns: Sequence[str]) -> tuple[tuple[str, int], ...]:
    """Return labels of the columns by the slowest-changing unit: months of days, days of hours."""
    for length in (16, 13, 10, 7, 4):
        labels = [column[:length] for column in columns]
        groups: list[tuple[str, int]] = []
        for label in labels:
            if groups and (groups[-1][0] == label or (length == 4 and groups[-1][1] < _NARROW)):
                groups[-1] = (groups[-1][0], groups[-1][1] + 1)
            else:
                groups.append((label, 1))
        if len(columns) / len(groups) >= 4 or length == 4:
            return tuple(groups)
    return ()


def _period(minutes: int) -> str:
    for size, name in ((10080, "week"), (1440, "day"), (60, "hour"), (1, "minute")):
        if minutes >= size and minutes % size == 0:
            number = minutes // size
            return f"{number} {name}s" if number > 1 else f"1 {name}"
    return f"{minutes} minutes"


def number(number: int | None) -> str:
    """Format a count; a dash if there is none."""
    return "–" if number is None else f"{number:,}"
