"""Window columns of numbers and bare texts: which forms there are, and which window holds a value.

The bounds of a window become values of the column, so a value is placed by comparisons alone. Here
they are compared with the instants that the values mean, looked up one by one.
"""

from datetime import datetime, timedelta, timezone
from itertools import pairwise
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from logdriven_dagster.config.models.types.time_columns import (
    TimeColumn,
    explain_not_a_time,
    find_second,
)
from logdriven_dagster.model.periods import Grid, Period
from logdriven_dagster.model.windows import TimeWindow, is_repeated
from tests.clock_changes import around_a_change
from tests.random_examples import examples

FORMATS = {
    "yyyyMMdd": "%Y%m%d",
    "yyyyMMddHH": "%Y%m%d%H",
    "yyyyMMddHHmm": "%Y%m%d%H%M",
    "yyyy-MM-dd HH:mm:ss": "%Y-%m-%d %H:%M:%S",
    "yyyy/MM/dd'T'HH:mm:ss.SSS": "%Y/%m/%dT%H:%M:%S.000",
}
"""Format → what Python calls it."""
UNITS = {"epoch_s": 1, "epoch_ms": 10**3, "epoch_us": 10**6, "epoch_ns": 10**9}


def shown(clock: datetime, pattern: str) -> datetime:
    """The time that a value of a pattern shows: the clock without what it does not show."""
    return datetime.strptime(clock.strftime(pattern), pattern)


def exists(clock: datetime, zone: ZoneInfo) -> bool:
    instant = clock.replace(tzinfo=zone).astimezone(timezone.utc)
    return instant.astimezone(zone).replace(tzinfo=None) == clock


@settings(max_examples=examples(100))
@given(
    at=around_a_change(),
    pattern=st.sampled_from(sorted(FORMATS)),
    hours=st.sampled_from([1, 2, 6, 24, 48]),
    minutes=st.lists(st.integers(-1440, 1440), min_size=1, max_size=20),
)
def test_each_time_of_the_clocks_lies_in_the_window_that_holds_its_first_instant(
    at: tuple[ZoneInfo, datetime], pattern: str, hours: int, minutes: list[int]
):
    zone, change = at
    column = TimeColumn(name="at", format=pattern)
    origin = (change - timedelta(days=2)).astimezone(zone).replace(hour=0, minute=0, tzinfo=zone)
    grid = Grid(origin, Period.parse(f"{hours} h"))
    if column.coarseness(grid):
        return
    windows = [grid.window(n) for n in range(4 * 24 // hours)]
    ranges = [column.range_of(each, as_text=True) for each in windows]
    assert all(one[1] == following[0] for one, following in pairwise(ranges))
    for minute in minutes:
        clock = (change + timedelta(minutes=minute)).astimezone(zone).replace(tzinfo=None)
        clock = shown(clock, FORMATS[pattern])
        if not exists(clock, zone) or has_misaligned_bound(windows, column):
            continue
        value = clock.strftime(FORMATS[pattern])
        held = [n for n, (first, end) in enumerate(ranges) if first <= value < end]
        instant = clock.replace(tzinfo=zone).astimezone(timezone.utc)
        assert held == [n for n, each in enumerate(windows) if each.start <= instant < each.end]


def has_misaligned_bound(windows: list[TimeWindow], column: TimeColumn) -> bool:
    """Whether a window begins within what one value covers, as where clocks move half an hour."""
    return any(
        each.start_clock.replace(tzinfo=None) != shown_by(each.start_clock, column)
        for each in windows
    )


def shown_by(clock: datetime, column: TimeColumn) -> datetime:
    return shown(clock.replace(tzinfo=None), FORMATS[str(column.format)])


@settings(max_examples=examples(100))
@given(
    at=around_a_change(),
    unit=st.sampled_from(sorted(UNITS)),
    offset=st.integers(-3 * 10**18, 3 * 10**18),
    near=st.integers(-2, 2),
)
def test_each_number_of_a_unit_lies_in_the_window_that_holds_its_instant(
    at: tuple[ZoneInfo, datetime], unit: str, offset: int, near: int
):
    zone, change = at
    column, per_second = TimeColumn(name="at", unit=unit), UNITS[unit]
    window = TimeWindow(change, change + timedelta(hours=1), zone=zone)
    first, end = column.range_of(window, as_text=False)
    assert (first, end) == tuple(round(bound) * per_second for bound in window.span)
    for value in (first + near, end + near, offset % (10**10 * per_second)):
        is_held = window.span[0] * per_second <= value < window.span[1] * per_second
        assert (first <= value < end) == is_held


def test_of_an_hour_that_comes_twice_the_first_window_holds_all_values():
    column, zone = TimeColumn(name="at", format="yyyyMMddHH"), ZoneInfo("Europe/Berlin")
    utc = [datetime(2022, 10, 30, hour, tzinfo=timezone.utc) for hour in range(3)]
    assert is_repeated(utc[0].astimezone(zone))
    ranges = [
        column.range_of(TimeWindow(start, end, zone=zone), as_text=False)
        for start, end in pairwise(utc)
    ]
    assert ranges == [(2022103002, 2022103003), (2022103003, 2022103003)]


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"unit": "epoch_ms", "format": "yyyy"},
        {"unit": "epoch"},
        *(
            {"format": each}
            for each in (
                *("ddMMyyyy", "yyMMdd", "yyyyM", "yyyyDDD", "dd/MM/yyyy", "yyyyMMddhh", "", "MM"),
                *(
                    "yyyy-MM-dd'T'HH:mm:ssZ",
                    "YYYYMMDD",
                    "yyyyddMM",
                    "yyyyMMdd ",
                    "yyyySSSSSSS",
                ),
            )
        ),
    ],
    ids=str,
)
def test_forms_that_do_not_sort_as_time_passes_are_refused(fields: dict[str, Any]):
    with pytest.raises(ValidationError):
        TimeColumn(name="at", **fields)


@pytest.mark.parametrize(
    ("pattern", "period", "start", "problem"),
    [
        ("yyyyMMdd", "1 day", "2022-01-01", None),
        ("yyyyMMdd", "1 week", "2022-01-01", None),
        ("yyyyMMdd", "1 month", "2022-01-15", None),
        ("yyyyMMdd", "1 hour", "2022-01-01", "show days, but windows begin at hours"),
        ("yyyyMMdd", "1 day", "2022-01-01T06:00", "show days, but windows begin at hours"),
        ("yyyyMMddHH", "15 min", "2022-01-01", "show hours, but windows begin at minutes"),
        ("yyyyMMddHH", "1 day", "2022-01-01T06:30", "show hours, but windows begin at minutes"),
        ("yyyyMMddHH", "6 hours", "2022-01-01T06:00", None),
        ("yyyyMM", "1 day", "2022-01-01", "show months, but windows begin at days"),
        ("yyyyMM", "1 month", "2022-01-15", "show months, but windows begin at days"),
        ("yyyyMM", "1 quarter", "2022-02-01", None),
        ("yyyy", "1 year", "2022-01-01", None),
        ("yyyy", "1 year", "2022-02-01", "show years, but windows begin at months"),
        ("yyyyMMddHHmm", "1 min", "2022-01-01T06:00:30", "show minutes, but windows begin at sec"),
    ],
)
def test_a_format_shows_at_least_what_windows_begin_at(
    pattern: str, period: str, start: str, problem: str | None
):
    origin = datetime.fromisoformat(start).replace(tzinfo=ZoneInfo("Europe/Berlin"))
    found = TimeColumn(name="at", format=pattern).coarseness(Grid(origin, Period.parse(period)))
    assert (found is None) if problem is None else (problem in str(found))


def test_a_type_fits_its_meaning_or_the_way_is_named():
    def problem(kind: str, **fields: Any) -> str:
        return str(TimeColumn(name="at", **fields).refusal(kind))

    for kind in ("int", "bigint", "long", "decimal(20,0)", "double"):
        assert problem(kind, unit="epoch_ms") == problem(kind, format="yyyyMMdd") == "None"
    assert problem("string", format="yyyy-MM-dd") == problem("varchar(8)", format="yyyy") == "None"
    assert "read the column as BIGINT" in problem("string", unit="epoch_ms")
    assert "write window_column: at" in problem("timestamp", unit="epoch_ms")
    assert "format: yyyy-MM-dd is only for texts" in problem("int", format="yyyy-MM-dd")
    for kind in ("float", "boolean", "binary", "array<int>"):
        assert kind in problem(kind, unit="epoch_s")
        assert "must be a timestamp" in str(explain_not_a_time("at", kind)) or kind == "float"
    assert "{name: at, unit: epoch_s}" in str(explain_not_a_time("at", "bigint"))
    for kind in ("timestamp", "timestamp_ntz", "date", "string"):
        assert explain_not_a_time("at", kind) is None


@settings(max_examples=examples(100))
@given(
    second=st.integers(0, 4_000_000_000),
    name=st.sampled_from(["America/New_York", "Europe/Berlin", "Asia/Kolkata", "UTC"]),
    pattern=st.sampled_from(["yyyy", "yyyyMM", *sorted(FORMATS)]),
    as_text=st.booleans(),
)
def test_a_value_of_a_format_means_the_time_that_its_bound_rounds_up(
    second: int, name: str, pattern: str, *, as_text: bool
):
    zone, column = ZoneInfo(name), TimeColumn(name="at", format=pattern)
    as_text |= any(between for between, _ in column.parts)
    instant = datetime.fromtimestamp(second, timezone.utc)
    value = column.format_bound(instant, zone, as_text=as_text)
    found = datetime.fromtimestamp(column.find_second(value, zone), zone)
    assert column.format_bound(found, zone, as_text=as_text) == value
    assert found >= instant or is_repeated(found)


@pytest.mark.parametrize("unit", UNITS)
def test_a_number_of_a_unit_means_its_second(unit: str):
    column, zone = TimeColumn(name="at", unit=unit), ZoneInfo("UTC")
    assert column.find_second(1_641_081_600 * UNITS[unit], zone) == 1_641_081_600
    assert column.find_second(-1, zone) == -1


def test_positions_of_timestamps_are_microseconds():
    assert find_second("at", 1_641_081_600_999_999, ZoneInfo("UTC")) == 1_641_081_600
    assert find_second("at", -1, ZoneInfo("UTC")) == -1
