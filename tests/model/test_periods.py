"""Periods, grids and the text of bounds, daylight saving included."""

from datetime import datetime, timedelta, timezone
from itertools import pairwise
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from logdriven_dagster.model.logs import TableLog
from logdriven_dagster.model.periods import Grid, Period, Unit
from logdriven_dagster.model.windows import (
    TimeWindow,
    convert_to_zone,
    format_range_text,
    normalize_instant,
    parse_range_text,
)
from logdriven_dagster.planning.pending import find_unfinished_windows
from tests.builders import table
from tests.clock_changes import CHANGES, around_a_change

BERLIN = ZoneInfo("Europe/Berlin")
ZONES = st.sampled_from(
    [ZoneInfo(name) for name in ("UTC", "Europe/Berlin", "America/New_York", *CHANGES)]
)
PERIODS = st.builds(Period, st.integers(1, 90), st.sampled_from(Unit))
DAY = Period.parse("1 day")
INSTANTS = st.integers(1_500_000_000, 1_900_000_000)


@pytest.mark.parametrize(
    ("text", "minutes", "shown"),
    [
        (1, 1, "1 minute"),
        (60, 60, "1 hour"),
        ("15 min", 15, "15 minutes"),
        ("1 day", 1440, "1 day"),
        (43_200, 43_200, "30 days"),
        ("2 weeks", 20_160, "2 weeks"),
        ("1 month", 43_200, "1 month"),
        ("1 quarter", 129_600, "3 months"),
        ("1 year", 518_400, "1 year"),
    ],
)
def test_a_period_is_minutes_or_words(text, minutes, shown):
    period = Period.parse(text)
    assert (period.minutes, str(period)) == (minutes, shown)


@pytest.mark.parametrize("text", [0, -5, "", "soon", "1 fortnight", "1.5 days", "0 min"])
def test_what_is_no_period_is_refused(text):
    with pytest.raises(ValueError, match="period"):
        Period.parse(text)


def test_a_day_has_23_hours_when_the_clocks_go_forward():
    grid = Grid(datetime(2026, 3, 28, tzinfo=BERLIN), Period.parse("1 day"))
    window = grid.window(1)
    assert window.end.timestamp() - window.start.timestamp() == 23 * 3600


def test_an_hour_is_60_minutes_when_the_clocks_go_back():
    grid = Grid(datetime(2026, 10, 25, tzinfo=BERLIN), Period.parse(60))
    texts = [grid.window(n).range_start for n in range(1, 5)]
    assert texts == ["20261025010000", "20261025020000", "20261025020000+0100", "20261025030000"]


def test_months_follow_the_calendar():
    grid = Grid(datetime(2023, 12, 5, tzinfo=BERLIN), Period.parse("1 month"))
    assert [grid.window(n).range_start[:8] for n in range(4)] == [
        "20231205",
        "20240105",
        "20240205",
        "20240305",
    ]


@given(ZONES, PERIODS, INSTANTS)
def test_every_instant_lies_in_the_window_of_its_index(zone, period, seconds):
    grid = Grid(datetime(2020, 1, 1, tzinfo=zone), period)
    instant = convert_to_zone(seconds, zone)
    window = grid.window(grid.index(instant))
    assert window.start.timestamp() <= seconds < window.end.timestamp()


@given(around_a_change(), PERIODS, st.integers(-3, 3))
def test_the_windows_around_a_change_of_clocks_adjoin_and_each_has_its_own_text(
    place, period, first
):
    zone, begin = place
    grid = Grid(begin.astimezone(zone).replace(day=min(begin.day, 28)), period)
    near = range(grid.index(begin) + first, grid.index(begin) + first + 8)
    windows = [grid.window(n) for n in near]
    assert all(one.end == other.start for one, other in pairwise(windows))
    assert [grid.index(window.start) for window in windows] == list(near)
    assert len({window.range_start for window in windows}) == len(windows)
    assert len({str(window) for window in windows}) == len(windows)
    assert len(set(windows)) == len(windows) == len(set(map(hash, windows)))


@pytest.mark.parametrize("start", ["2011-12-27", "2011-12-30", "2012-01-02"])
def test_a_day_that_a_zone_skipped_has_no_window(start):
    grid = Grid(datetime.fromisoformat(start).replace(tzinfo=ZoneInfo("Pacific/Apia")), DAY)
    n = grid.index(datetime(2011, 12, 29, 12, tzinfo=timezone.utc))
    shown = [str(grid.window(n + i)) for i in range(3)]
    assert shown == [
        "[2011-12-29, 2011-12-31)",
        "[2011-12-31, 2012-01-01)",
        "[2012-01-01, 2012-01-02)",
    ]
    assert grid.window(n).span[1] - grid.window(n).span[0] == 24 * 3600


def test_a_grid_may_begin_at_the_second_of_two_times():
    second = datetime(2022, 10, 30, 2, tzinfo=BERLIN, fold=1)
    for period in (DAY, Period.parse("1 hour"), Period.parse("1 month")):
        grid = Grid(second, period)
        assert grid.window(0).start == normalize_instant(second)
        assert grid.index(normalize_instant(second)) == 0
        assert grid.index(normalize_instant(second.replace(fold=0))) == -1


def test_two_grids_are_equal_if_they_begin_at_one_instant_in_one_zone():
    berlin, utc = (ZoneInfo(name) for name in ("Europe/Berlin", "UTC"))
    one = Grid(datetime(2022, 1, 1, 1, tzinfo=berlin), DAY)
    assert one == Grid(datetime(2022, 1, 1, 1, tzinfo=berlin), DAY)
    assert one != Grid(datetime(2022, 1, 1, tzinfo=utc), DAY)
    first, second = (datetime(2022, 10, 30, 2, tzinfo=berlin, fold=fold) for fold in (0, 1))
    assert Grid(first, Period.parse(60)) != Grid(second, Period.parse(60))


@given(around_a_change(), st.integers(1, 300))
def test_windows_hold_utc_from_any_zone(place, minutes):
    zone, begin = place
    end = begin + timedelta(minutes=minutes)
    local = TimeWindow(begin.astimezone(zone), end.astimezone(zone))
    assert local == TimeWindow(begin, end)
    assert hash(local) == hash(TimeWindow(begin, end))
    assert (local.start.tzinfo, local.end.tzinfo) == (timezone.utc, timezone.utc)
    assert local.end - local.start == timedelta(minutes=minutes)
    assert (local.zone, TimeWindow(begin, end, zone=zone).zone) == (zone, zone)
    assert str(local) == str(TimeWindow(begin, end, zone=zone))


@given(ZONES, INSTANTS)
def test_the_text_of_a_bound_names_one_instant(zone, seconds):
    assert (
        parse_range_text(format_range_text(convert_to_zone(seconds, zone)), zone).timestamp()
        == seconds
    )


@given(ZONES, PERIODS, INSTANTS, st.integers(1, 10_000_000))
def test_the_covering_windows_are_the_fewest_that_hold_a_range(zone, period, seconds, length):
    grid = Grid(datetime(2020, 1, 1, tzinfo=zone), period)
    inner = TimeWindow(convert_to_zone(seconds, zone), convert_to_zone(seconds + length, zone))
    outer = grid.covering(inner)
    assert outer.contains(inner)
    first, last = grid.index(outer.start), grid.index(outer.end)
    assert grid.get_bound(first).timestamp() == outer.start.timestamp()
    assert grid.get_bound(first + 1).timestamp() > inner.start.timestamp()
    assert grid.get_bound(last - 1).timestamp() < inner.end.timestamp()


def test_a_window_is_never_empty_nor_naive():
    instant = datetime(2022, 1, 1, tzinfo=timezone.utc)
    with pytest.raises(ValueError, match="empty"):
        TimeWindow(instant, instant)
    with pytest.raises(ValueError, match="must have a time zone"):
        TimeWindow(datetime(2022, 1, 1), datetime(2022, 1, 1) + timedelta(days=1))


def test_a_first_midnight_that_the_clocks_skip_does_not_move_the_others():
    daily = table(zone="America/Sao_Paulo", default_start="2018-11-04")
    first, second = (daily.grid.window(n) for n in (0, 1))
    assert (first.range_start, first.range_end) == ("20181104010000", "20181105000000")
    assert (second.range_start, second.range_end) == ("20181105000000", "20181106000000")
    assert (first.end - first.start.astimezone(timezone.utc)) == timedelta(hours=23)
    hourly = table(zone="America/Sao_Paulo", default_start="2018-11-04", period=60)
    assert hourly.grid.window(0).range_start == "20181104010000"
    monthly = table(zone="America/Sao_Paulo", default_start="2018-11-04", period="1 month")
    assert monthly.grid.window(1).range_start == "20181204000000"


def test_all_windows_of_such_a_table_are_pending_from_its_first_instant_on():
    daily = table(zone="America/Sao_Paulo", default_start="2018-11-04")
    now = datetime(2018, 11, 7, 1, tzinfo=ZoneInfo("America/Sao_Paulo"))
    assert list(find_unfinished_windows(daily, TableLog(), now)) == [
        daily.grid.window(n) for n in (0, 1, 2)
    ]
    assert not list(
        find_unfinished_windows(daily, TableLog(), daily.grid.get_bound(1) - timedelta(hours=1))
    )
