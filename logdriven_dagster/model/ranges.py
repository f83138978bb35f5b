"""Arithmetic of ascending, disjoint ranges of time."""

from collections.abc import Iterable, Iterator
from heapq import merge

from logdriven_dagster.model.windows import TimeWindow


def unite(*ranges: Iterable[TimeWindow]) -> list[TimeWindow]:
    """Return the coalesced union of all ranges; each argument must ascend."""
    known = [items for items in map(list, ranges) if items]
    if sum(map(len, known)) < 2:  # the common case for a table's log
        return [item for items in known for item in items]
    together: list[TimeWindow] = []
    for item in merge(*known, key=lambda r: r.span[0]):
        if together and item.span[0] <= together[-1].span[1]:
            if item.span[1] > together[-1].span[1]:
                together[-1] = together[-1].up_to_end_of(item)
        else:
            together.append(item)
    return together


def find_uncovered(whole: TimeWindow, covered: Iterable[TimeWindow]) -> Iterator[TimeWindow]:
    """Yield the parts of `whole` outside of `covered`, which must be ascending and disjoint."""
    start = whole.start
    reached, end = whole.span
    for item in covered:
        low, high = item.span
        if high <= reached:
            continue
        if low >= end:
            break
        if low > reached:
            yield TimeWindow(start, item.start, zone=whole.zone)
        start, reached = item.end, high
    if reached < end:
        yield TimeWindow(start, whole.end, zone=whole.zone)


def subtract(ranges: Iterable[TimeWindow], holes: Iterable[TimeWindow]) -> list[TimeWindow]:
    """Return the parts of the ranges outside of all holes; both must ascend."""
    covered = unite(holes)
    if not covered:
        return list(ranges)
    return [part for item in ranges for part in find_uncovered(item, covered)]
