"""The pending queue of a table that is read along keys, offsets or files instead of time.

Source: Sharp ETL, auto-incremented keys and Kafka topics: a window begins where the last success
ended. Its end is determined only when it runs, so planning does not query a source.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime

from logdriven_dagster.config.derived.processes import build_process, get_max_batches
from logdriven_dagster.config.models.tables import TableConfig
from logdriven_dagster.model.logs import LastSlice, TableLog
from logdriven_dagster.model.offsets import Partition, get_spans
from logdriven_dagster.model.windows import Along, Slice


def list_pending_slices(table: TableConfig, log: TableLog, now: datetime) -> list[Slice]:
    """Return the slices that did not succeed, oldest first, and the next one if it is due."""
    opened = [item.window for item in log.open if isinstance(item.window, Slice)]
    following = get_next_slice(table, log.last)
    ahead = any(item.number >= following.number for item in opened)
    if table.incremental.takes_upstream_batches:
        first = max([following.number, *(item.number + 1 for item in opened)])
        number = count_queued_slices(table, log)
        again = log.stale and table.on_upstream_refresh == "rerun"
        if not (opened or number or again) and any(log.unmarked.values()):
            number = 1  # it is blocked, which users should see
        return [*opened, *(number_slice(table, first + n) for n in range(number))]
    return opened if ahead or not is_due(table, log, now) else [*opened, following]


def count_queued_slices(table: TableConfig, log: TableLog) -> int:
    """Return the number of slices that the queued batches make; each takes some of every source.

    Source: BDRE. With a cut pattern the number is unknown before the markings are read, so it is
    one.
    """
    cuts = []
    for route in build_process(table).routes:
        waiting = log.queued.get((route.step, route.source), 0)
        size = max(waiting, 1) if route.enqueuer.cut_pattern else get_max_batches(table) or 1
        cuts.append(-(-waiting // size))
    return min(cuts, default=0)


def explain_unmarked(table: TableConfig, log: TableLog, window: Slice) -> list[str]:
    """Return the reasons why a slice cannot be cut: batches wait, and none has the mark.

    Source: BDRE, 109.
    """
    is_next = window.number >= get_next_slice(table, log.last).number
    if not is_next or count_queued_slices(table, log) or any(i.window == window for i in log.open):
        return []
    waiting = (
        (route, log.unmarked.get((route.step, route.source), 0))
        for route in build_process(table).routes
        if not log.queued.get((route.step, route.source))
    )
    return [
        f"a delivery of {route.source} that is marked {route.enqueuer.cut_pattern!r}: "
        f"none of the {number} in its queue is"
        for route, number in waiting
        if number
    ]


def number_slice(table: TableConfig, number: int) -> Slice:
    """Return a slice of batches that no attempt has taken yet."""
    return Slice.nth(number, "", None, table.grid.zone, Along.BATCHES)


def get_next_slice(table: TableConfig, last: LastSlice | None) -> Slice:
    """Return the slice after the last success, or the last one again if it was empty."""
    number = 0 if last is None else last.slice.number + (0 if last.slice.is_empty else 1)
    if table.incremental.consumes_batches:
        return number_slice(table, number)
    low = get_first_low(table) if last is None else last.slice.high or ""
    return Slice.nth(number, low, None, table.grid.zone, table.along)


def get_first_low(table: TableConfig) -> str:
    """Return the lower bound of the first slice.

    Source: Sharp ETL, 0 and `earliest` by default.
    """
    if table.default_start is not None:
        return str(table.default_start)
    return table.incremental.first_low


def is_due(table: TableConfig, log: TableLog, now: datetime) -> bool:
    """Return True if the source is to be read: once per period, or at once if it has more rows."""
    last, grid = log.last, table.grid
    if last is None or last.has_more or any(log.queued.values()):
        return True
    return grid.index(now) > grid.index(last.now)


def find_slices_within(
    table: TableConfig, known: Sequence[Slice], first: str, last: str
) -> list[Slice]:
    """Return the slices that a range of keys or offsets overlaps: rows are replaced slice by slice.

    Keys: after `first`, up to and including `last`. Offsets as JSON: from `first` up to `last`.
    Otherwise numbers of slices, from `first` up to `last`. Raises ValueError for any other text.
    """
    if table.along is Along.KEYS:
        keys = range(int(first) + 1, int(last) + 1)
        return [item for item in known if _is_overlapping(range(*_get_keys(item)), keys)]
    if first.startswith("{"):
        asked = get_spans(first, last)
        return [item for item in known if item.high and _has_common_offsets(item, asked)]
    numbers = range(int(first), int(last))
    return [item for item in known if item.number in numbers]


def _get_keys(item: Slice) -> tuple[int, int]:
    return int(item.low) + 1, int(item.high or item.low) + 1


def _is_overlapping(one: range, other: range) -> bool:
    return max(one.start, other.start) < min(one.stop, other.stop)


def _has_common_offsets(item: Slice, asked: Mapping[Partition, range]) -> bool:
    """Return True if a slice and a range have messages of some partition in common."""
    held = get_spans(item.low, item.high or item.low)
    return any(
        _is_overlapping(held[partition], asked[partition]) for partition in held.keys() & asked
    )
