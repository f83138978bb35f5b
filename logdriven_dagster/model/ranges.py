"""Arithmetic of ascending, disjoint ranges of time."""

from collections.abc import Iterable, Iterator
from heapq import merge

from logdriven_dagster.model.windows import TimeWindow


def union(*ranges: Iterable[TimeWindow]) -> list[TimeWindow]:
    """All the ranges together, coalesced; each argument ascends."""
    known = [items for items in map(list, ranges) if items]
    if sum(map(len, known)) < 2:  # the log of nearly every table
        return [item for items in known for item in items]
    together: list[TimeWindow] = []
    for item in merge(*known, key=lambda r: r.span[0]):
        if together and item.span[0] <= together[-1].span[1]:
            if item.span[1] > together[-1].span[1]:
                together[-1] = together[-1].up_to_end_of(item)
        else:
            together.append(item)
    return together


def uncovered(whole: TimeWindow, covered: Iterable[TimeWindow]) -> Iterator[TimeWindow]:
    """The parts of `whole` that no range of `covered` (ascending, disjoint) holds."""
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


def without(ranges: Iterable[TimeWindow], holes: Iterable[TimeWindow]) -> list[TimeWindow]:
    """The parts of the ranges that no hole holds; both ascend."""
    covered = union(holes)
    if not covered:
        return list(ranges)
    return [part for item in ranges for part in uncovered(item, covered)]
