"""How far a slice goes, as arithmetic. Checklist S16–S21."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from logdriven_dagster.errors import TerminalStepError
from logdriven_dagster.plugins.kafka.offsets import (
    Range,
    build_range,
    format_offsets,
    parse,
    ranges,
    shares,
    tasks,
)

OFFSET = st.integers(0, 2**63 - 1)
PARTITION = st.tuples(st.sampled_from(["a", "b", "ü"]), st.integers(0, 20))
BEYOND_32_BITS = 2**31 + 7


def offsets(**partitions: Any) -> str:
    return json.dumps({"t": {name[1:]: value for name, value in partitions.items()}})


def extents(*found: tuple[int, int]) -> dict[tuple[str, int], tuple[int, int]]:
    return {("t", number): extent for number, extent in enumerate(found)}


def test_offsets_are_written_as_spark_writes_them():
    assert (
        format_offsets({("t", 10): 1, ("t", 2): 3, ("a", 0): 5})
        == '{"a":{"0":5},"t":{"2":3,"10":1}}'
    )


@given(st.dictionaries(PARTITION, OFFSET))
def test_a_text_holds_the_offsets(given_offsets: dict[Any, int]):
    assert parse(format_offsets(given_offsets)) == given_offsets


@pytest.mark.parametrize("wrong", ["earliest", "[]", '{"t": 5}', '{"t":{"0":-1}}', '{"t":{"x":1}}'])
def test_what_is_no_slice_is_refused(wrong: str):
    with pytest.raises(TerminalStepError, match="is not a range of Kafka offsets"):
        parse(wrong)


def test_the_first_slice_begins_at_the_earliest_or_the_latest_offset():
    found = extents((3, 10), (0, 0))
    assert build_range(found, ["t"], "earliest").low == '{"t":{"0":3,"1":0}}'
    latest = build_range(found, ["t"], "latest")
    assert latest.low == latest.high == '{"t":{"0":10,"1":0}}'


def test_a_partition_without_new_messages_carries_its_offset_forward():
    slice_ = build_range(extents((0, 5), (0, 9)), ["t"], parse(offsets(p0=5, p1=4)))
    assert slice_.high == '{"t":{"0":5,"1":9}}'
    assert slice_.messages == 5


def test_a_partition_that_is_new_begins_at_its_earliest_offset():
    slice_ = build_range(extents((0, 5), (2, 9)), ["t"], parse(offsets(p0=5)))
    assert (slice_.low, slice_.messages) == ('{"t":{"0":5,"1":2}}', 7)


def test_offsets_have_64_bits_s19():
    slice_ = build_range(extents((0, 2**62)), ["t"], parse(offsets(p0=BEYOND_32_BITS)))
    assert slice_.low == f'{{"t":{{"0":{BEYOND_32_BITS}}}}}'
    assert slice_.messages == 2**62 - BEYOND_32_BITS


def test_an_empty_topic_gives_an_empty_slice():
    slice_ = build_range(extents((0, 0)), ["t"], "earliest")
    assert (slice_.low, slice_.has_more) == (slice_.high, False)


GAPS = {
    "deleted": (extents((15, 20)), "partition 0: offsets 10 to 14 were deleted"),
    "all deleted": (extents((20, 20)), "partition 0: offsets 10 to 19 were deleted"),
    "recreated": (extents((0, 5)), "partition 0: offset 10 is after its end 5"),
    "vanished": ({("t", 1): (0, 5)}, "partition 0: it does not exist any more"),
}


@pytest.mark.parametrize("gap", GAPS)
def test_a_gap_stops_the_slice_and_reports_the_loss(gap: str):
    found, problem = GAPS[gap]
    with pytest.raises(TerminalStepError, match=problem) as caught:
        build_range(found, ["t"], parse(offsets(p0=10)))
    assert "on_gap: report" in str(caught.value)


@pytest.mark.parametrize("gap", GAPS)
def test_a_reported_gap_is_recorded_and_passed(gap: str):
    found, problem = GAPS[gap]
    slice_ = build_range(found, ["t"], parse(offsets(p0=10)), on_gap="report")
    assert problem in slice_.notes
    assert parse(slice_.low) == {partition: first for partition, (first, _) in found.items()}
    assert parse(slice_.high) == {partition: end for partition, (_, end) in found.items()}


def test_an_offset_at_either_end_is_no_gap():
    for start in (5, 20):
        assert not build_range(extents((5, 20)), ["t"], parse(offsets(p0=start))).notes


def test_a_topic_that_is_not_configured_any_more_is_left_out_and_reported():
    slice_ = build_range(extents((0, 5)), ["t"], parse('{"old":{"0":7},"t":{"0":2}}'))
    assert slice_.low == '{"t":{"0":2}}'
    assert "old is not a topic of the source any more" in slice_.notes


WAITING = st.dictionaries(PARTITION, st.integers(0, 10**9) | OFFSET, max_size=12)


@given(WAITING, st.integers(1, 10**12))
def test_shares_use_the_limit_up_and_never_exceed_it(waiting: dict[Any, int], limit: int):
    taken = shares(waiting, limit)
    assert sum(taken.values()) == min(limit, sum(waiting.values()))
    assert taken.keys() == waiting.keys()
    assert all(0 <= taken[p] <= waiting[p] for p in waiting)
    assert taken == shares(dict(reversed(waiting.items())), limit)


@given(WAITING, st.integers(1, 10**6))
def test_no_partition_is_starved_by_a_larger_one(waiting: dict[Any, int], limit: int):
    taken, busy = shares(waiting, limit), [p for p in waiting if waiting[p]]
    if limit >= len(busy):
        assert all(taken[p] for p in busy)


def test_shares_are_in_proportion():
    waiting = {("t", 0): 3_000, ("t", 1): 1_000, ("t", 2): 0}
    assert shares(waiting, 400) == {("t", 0): 300, ("t", 1): 100, ("t", 2): 0}
    assert shares(waiting, None) == waiting


GROWTH = st.lists(st.lists(st.integers(0, 50), min_size=1, max_size=4), min_size=1, max_size=6)


@given(GROWTH, st.integers(1, 40))
def test_slices_one_after_the_other_take_every_message_once(growth: list[list[int]], limit: int):
    """Topics grow and gain partitions; at last nobody writes any more and all is read."""
    ends: list[int] = []
    low: Any = "earliest"
    read: list[tuple[int, int]] = []
    for step in [*growth, *([[]] * 100)]:
        ends = [
            (ends[n] if n < len(ends) else 0) + (step[n] if n < len(step) else 0)
            for n in range(max(len(ends), len(step)))
        ]
        slice_ = build_range(extents(*((0, end) for end in ends)), ["t"], low, limit)
        assert slice_.messages <= limit
        assert slice_.has_more == (ends != list(parse(slice_.high).values()))
        for part in ranges(slice_.low, slice_.high):
            read += [(part.partition, offset) for offset in range(part.first, part.end)]
        low = parse(slice_.high)
    assert len(read) == len(set(read))
    if sum(ends) <= 100 * limit:
        assert set(read) == {(n, offset) for n, end in enumerate(ends) for offset in range(end)}


@given(
    st.lists(st.tuples(st.integers(0, 9), st.integers(0, 10**6), st.integers(1, 10**5))),
    st.integers(1_000, 10**6),
)
def test_tasks_cut_ranges_without_losing_an_offset(found: list[Any], per_task: int):
    parts = [Range("t", number, first, first + size) for number, first, size in found]
    cut = [part for task in tasks(parts, per_task) for part in task]
    assert all(part.end - part.first <= per_task for part in cut)
    joined: list[Range] = []
    for part in cut:
        last = joined[-1] if joined else None
        if last and last.partition == part.partition and last.end == part.first:
            joined[-1] = Range("t", part.partition, last.first, part.end)
        else:
            joined.append(part)
    assert sum(p.end - p.first for p in joined) == sum(p.end - p.first for p in parts)
    assert {p.first for p in parts} >= {p.first for p in joined}


def test_few_messages_are_one_task_and_many_are_one_for_each_partition():
    few, many = Range("t", 0, 0, 10), Range("t", 1, 0, 20_000)
    assert tasks([few, few], 1_000_000) == [(few, few)]
    assert tasks([few, many], 1_000_000) == [(few,), (many,)]
    assert tasks([], 1_000_000) == []


def test_a_slice_whose_ends_do_not_fit_is_refused():
    with pytest.raises(TerminalStepError, match="the same partitions"):
        ranges(offsets(p0=1), offsets(p0=1, p1=2))
    with pytest.raises(TerminalStepError, match="ends before it begins"):
        ranges(offsets(p0=5), offsets(p0=1))
