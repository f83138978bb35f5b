"""Partitions definitions, keys and mappings for the windows of tables."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cache
from typing import TypeAlias
from zoneinfo import ZoneInfo

from dagster import (
    AllPartitionMapping,
    AssetKey,
    DagsterInstance,
    DynamicPartitionsDefinition,
    IdentityPartitionMapping,
    LastPartitionMapping,
    PartitionMapping,
    PartitionsDefinition,
    TimeWindowPartitionMapping,
    TimeWindowPartitionsDefinition,
)

from logdriven_dagster.config.models.dependencies import Dependency
from logdriven_dagster.config.models.tables import TableConfig
from logdriven_dagster.errors import UsageError
from logdriven_dagster.model.attempts import Status
from logdriven_dagster.model.logs import OpenWindow
from logdriven_dagster.model.periods import Grid, Period, Unit
from logdriven_dagster.model.windows import Slice, TimeWindow, is_repeated, on_clock
from logdriven_dagster.orchestration.location import Location

_WEEKS_VERIFIED = 52 * 30
_DATE, _MINUTE = "%Y-%m-%d", "%Y-%m-%d-%H:%M"


@dataclass(frozen=True)
class TablePartitions:
    """A grid of windows as Dagster partitions: key ↔ window, both ways and without loss.

    The definition is a `TimeWindowPartitionsDefinition` where cron expresses the grid exactly, else
    a `DynamicPartitionsDefinition` whose keys the catch-up adds before it runs them.
    """

    grid: Grid
    definition: PartitionsDefinition[str]

    @property
    def dynamic_name(self) -> str | None:
        """The name under which the instance stores the keys; None where cron defines them."""
        dynamic = isinstance(self.definition, DynamicPartitionsDefinition)
        return self.definition.name if dynamic else None  # type: ignore[attr-defined]

    def key(self, window: TimeWindow) -> str:
        """Return the partition key: the window's start on the wall clock.

        When clocks go back, an hour exists twice; the second one carries its UTC offset.
        """
        start, definition = window.start_clock, self.definition
        fmt = definition.fmt if isinstance(definition, TimeWindowPartitionsDefinition) else _MINUTE
        text = start.strftime(fmt if not start.second else f"{fmt}:%S")
        again = start.fold and is_repeated(start)
        return text + f"{start:%z}" if again and fmt != _DATE else text

    def holds(self, window: TimeWindow) -> bool:
        """Return True if the window is one of the grid.

        After a change of the period, parts of older windows may remain that have no partition.
        """
        return self.grid.holds(window)

    def window(self, key: str) -> TimeWindow:
        """Return the window of a key.

        Raises UsageError for a key that starts no window of the grid.
        """
        window = self.grid.window(self.grid.index(start_of(key, self.grid.zone)))
        if self.key(window) != key:
            raise UsageError(f"{key!r} is not a partition: the nearest window is {window}")
        return window

    def windows(self, keys: Iterable[str]) -> list[TimeWindow]:
        """Return the windows of some keys, oldest first."""
        return sorted(map(self.window, keys), key=lambda window: window.start)

    def range(self, keys: Iterable[str]) -> TimeWindow:
        """Return the range from the start of the oldest window to the end of the newest one."""
        windows = self.windows(keys)
        return windows[0].up_to_end_of(windows[-1])


def start_of(key: str, zone: ZoneInfo) -> datetime:
    """Return the timestamp of a partition key on the wall clock of `zone`.

    Raises UsageError for a text that is not such a key.
    """
    for fmt in (_DATE, _MINUTE, f"{_MINUTE}:%S", f"{_MINUTE}%z", f"{_MINUTE}:%S%z"):
        try:
            start = datetime.strptime(key, fmt)
        except ValueError:
            continue
        return on_clock(start, zone)
    raise UsageError(f"{key!r} is not a partition key, such as 2013-01-01 or 2013-01-01-06:00")


@dataclass(frozen=True)
class SlicePartitions:
    """The key or offset ranges of a table as partitions, added one by one and named by key."""

    definition: DynamicPartitionsDefinition

    @property
    def dynamic_name(self) -> str:
        """The name under which the instance stores the keys."""
        return str(self.definition.name)

    def key(self, window: TimeWindow) -> str:
        """Return the partition key: the key after which the range begins, or its number."""
        return window.key

    def holds(self, window: TimeWindow) -> bool:
        """Return True for a key or offset range; a table of another type may have other windows."""
        return isinstance(window, Slice)


Partitions: TypeAlias = TablePartitions | SlicePartitions
"""The partitions that show the windows of a table."""


def table_partitions(table: TableConfig, location: Location) -> Partitions:
    """Return the partitions of a table; tables with equal time grids share one definition.

    Key and offset ranges belong to one table of one project. The prefix of its code location
    distinguishes it from a table of the same name in another project.
    """
    if table.is_sliced:
        return SlicePartitions(DynamicPartitionsDefinition(name=_slices(location, table.table)))
    return partitions_of(table.grid)


def _slices(location: Location, table: str) -> str:
    return location.name(f"slices of {table}")


def remove_partitions(instance: DagsterInstance, location: Location, table: str) -> None:
    """Delete the partitions of a table's key or offset ranges; those of a grid may be shared."""
    name = _slices(location, table)
    for key in instance.get_dynamic_partitions(name):
        instance.delete_dynamic_partition(name, key)


def partitions_of(grid: Grid) -> TablePartitions:
    """Return the partitions of a grid; equal grids share one definition, so a run can hold them."""
    return _partitions_of(grid)


def add_partitions(
    instance: DagsterInstance, location: Location, windows: Iterable[tuple[TableConfig, TimeWindow]]
) -> None:
    """Add dynamic partitions to the instance, all of a definition at once."""
    keys: dict[str, list[str]] = {}
    for table, window in windows:
        partitions = table_partitions(table, location)
        if name := partitions.dynamic_name:
            keys.setdefault(name, []).append(partitions.key(window))
    for name, of_name in keys.items():
        instance.add_dynamic_partitions(name, of_name)


@cache
def _partitions_of(grid: Grid) -> TablePartitions:
    origin, zone = grid.origin.astimezone(grid.zone), grid.zone.key
    again = f"{origin:%z}" if origin.fold and is_repeated(origin) else ""
    name = f"every {grid.period} from {grid.clock:%Y-%m-%d %H:%M:%S}{again} {zone}"
    dynamic = TablePartitions(grid, DynamicPartitionsDefinition(name=name))
    cron = _cron(grid)
    if cron is None or again:
        return dynamic
    at_midnight = (grid.clock.hour, grid.clock.minute) == (0, 0)
    fmt = _DATE if at_midnight and grid.period.unit is not Unit.MINUTE else _MINUTE
    definition = TimeWindowPartitionsDefinition(
        start=grid.clock.strftime(fmt),
        end=_last_bound(grid, grid.end).strftime(fmt) if grid.end else None,
        fmt=fmt,
        cron_schedule=cron,
        timezone=zone,
    )
    partitions = TablePartitions(grid, definition)
    return partitions if _is_exact(partitions, definition) else dynamic


def _last_bound(grid: Grid, end: datetime) -> datetime:
    return grid.get_bound(grid.index(end)).astimezone(grid.zone)


def _cron(grid: Grid) -> str | None:
    """Return the cron expression of the grid, disregarding clock changes; None if there is none."""
    origin, period = grid.clock, grid.period
    if origin.second or origin.microsecond:
        return None
    minute, hour, day = str(origin.minute), str(origin.hour), str(origin.day)
    match period:
        case Period(count=count, unit=Unit.MINUTE) if 60 % count == 0:
            return f"{_every(count, origin.minute, 0, 60)} * * * *"
        case Period(count=count, unit=Unit.MINUTE) if 1440 % count == 0 and count % 60 == 0:
            return f"{minute} {_every(count // 60, origin.hour, 0, 24)} * * *"
        case Period(count=1, unit=Unit.DAY):
            return f"{minute} {hour} * * *"
        case Period(count=7, unit=Unit.DAY):
            return f"{minute} {hour} * * {origin.isoweekday() % 7}"
        case Period(count=count, unit=Unit.MONTH) if 12 % count == 0:
            return f"{minute} {hour} {day} {_every(count, origin.month, 1, 13)} *"
        case _:
            return None


def _every(step: int, through: int, first: int, end: int) -> str:
    values = range(first + (through - first) % step, end, step)
    return "*" if step == 1 else ",".join(map(str, values))


def _is_exact(partitions: TablePartitions, definition: TimeWindowPartitionsDefinition) -> bool:
    """Return True if Dagster's windows equal the grid's when the clocks change.

    Elapsed hours and cron's wall clock diverge there, so each change is checked: that is exact for
    every zone, unlike a rule about zones.
    """
    grid = partitions.grid
    for instant in _clock_changes(grid):
        around = grid.index(instant)
        for n in range(max(around - 1, 0), around + 2):
            window = grid.window(n)
            start = window.start_clock
            theirs = definition.get_next_partition_window(start, respect_bounds=False)
            if theirs is None or _instants(theirs) != _instants(window):
                return False
    return True


def _instants(window: object) -> tuple[float, float]:
    return window.start.timestamp(), window.end.timestamp()  # type: ignore[attr-defined]


def _clock_changes(grid: Grid) -> list[datetime]:
    """Return the instants at which the zone's UTC offset changes, from the origin on."""
    changes: dict[object, datetime] = {}
    instant = grid.origin.astimezone(grid.zone)
    for _ in range(_WEEKS_VERIFIED):
        later = _add_elapsed(instant, timedelta(weeks=1))
        if later.utcoffset() != instant.utcoffset():
            change = _bisect(instant, later)
            # For elapsed time two changes at the same clock time are the same; days and months may
            # begin on the very day of a change, so that each date counts.
            day = None if grid.period.unit is Unit.MINUTE else change.date()
            kind = (day, change.time(), instant.utcoffset(), later.utcoffset())
            changes.setdefault(kind, change)
        instant = later
    return list(changes.values())


def _bisect(before: datetime, after: datetime) -> datetime:
    """Return the first instant (to the second) between two that has the offset of the later one."""
    low, high = int(before.timestamp()), int(after.timestamp())
    zone = before.tzinfo
    while high - low > 1:
        middle = (low + high) // 2
        changed = datetime.fromtimestamp(middle, zone).utcoffset() == after.utcoffset()
        low, high = (low, middle) if changed else (middle, high)
    return datetime.fromtimestamp(high, zone)


def _add_elapsed(instant: datetime, step: timedelta) -> datetime:
    return datetime.fromtimestamp(instant.timestamp() + step.total_seconds(), instant.tzinfo)


def partition_mapping(
    upstream: Partitions,
    downstream: Partitions,
    dependency: Dependency,
) -> PartitionMapping:
    """Map the windows of two tables, for Dagster's lineage; the planner decides readiness.

    Dagster maps cron grids onto each other by overlap; between a dynamic definition and any other
    one it supports only all partitions or the last one.
    """
    if dependency.window == "none":
        return LastPartitionMapping()
    if upstream.definition == downstream.definition:
        return IdentityPartitionMapping()
    if upstream.dynamic_name or downstream.dynamic_name:
        return AllPartitionMapping()
    return TimeWindowPartitionMapping(allow_nonexistent_upstream_partitions=True)


def find_failed_partitions(
    location: Location, opened: Mapping[str, Iterable[OpenWindow]]
) -> set[tuple[AssetKey, str]]:
    """Return the partitions of failed windows, without failed refreshes that changed nothing.

    `opened` has the unfinished windows of each table, as the run log returns them.
    """
    return {
        (
            location.key(name),
            table_partitions(location.project.tables[name], location).key(item.window),
        )
        for name, items in opened.items()
        for item in items
        if item.status is Status.FAILURE and not item.stands
    }
