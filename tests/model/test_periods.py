"""Periods, grids and the text of bounds, daylight saving included."""

from datetime import datetime, timedelta, timezone
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from logdriven_dagster.model.logs import TableLog
from logdriven_dagster.model.periods import Grid, Period, Unit
from logdriven_dagster.model.windows import TimeWindow, in_zone, parse_range_text, range_text
from logdriven_dagster.planning import unfinished_windows
from tests.builders import table

BERLIN = ZoneInfo("Europe/Berlin")
ZONES = st.sampled_from([ZoneInfo("UTC"), BERLIN, ZoneInfo("America/New_York")])
PERIODS = st.builds(Period, st.integers(1, 90), st.sampled_from(Unit))
MOMENTS = st.integers(1_500_000_000, 1_900_000_000)


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
    texts = [range_text(grid.bound(n)) for n in range(1, 5)]
    assert texts == ["20261025010000", "20261025020000", "20261025020000+0100", "20261025030000"]


def test_months_follow_the_calendar():
    grid = Grid(datetime(2023, 12, 5, tzinfo=BERLIN), Period.parse("1 month"))
    assert [f"{grid.bound(n):%Y-%m-%d}" for n in range(4)] == [
        "2023-12-05",
        "2024-01-05",
        "2024-02-05",
        "2024-03-05",
    ]


@given(ZONES, PERIODS, MOMENTS)
def test_every_moment_lies_in_the_window_of_its_index(zone, period, seconds):
    grid = Grid(datetime(2020, 1, 1, tzinfo=zone), period)
    moment = in_zone(seconds, zone)
    window = grid.window(grid.index(moment))
    assert window.start.timestamp() <= seconds < window.end.timestamp()


@given(ZONES, MOMENTS)
def test_the_text_of_a_bound_names_one_instant(zone, seconds):
    assert parse_range_text(range_text(in_zone(seconds, zone)), zone).timestamp() == seconds


@given(ZONES, PERIODS, MOMENTS, st.integers(1, 10_000_000))
def test_the_covering_windows_are_the_fewest_that_hold_a_range(zone, period, seconds, length):
    grid = Grid(datetime(2020, 1, 1, tzinfo=zone), period)
    inner = TimeWindow(in_zone(seconds, zone), in_zone(seconds + length, zone))
    outer = grid.covering(inner)
    assert outer.contains(inner)
    first, last = grid.index(outer.start), grid.index(outer.end)
    assert grid.bound(first).timestamp() == outer.start.timestamp()
    assert grid.bound(first + 1).timestamp() > inner.start.timestamp()
    assert grid.bound(last - 1).timestamp() < inner.end.timestamp()


def test_a_window_is_never_empty_nor_naive():
    moment = datetime(2022, 1, 1, tzinfo=timezone.utc)
    with pytest.raises(ValueError, match="empty"):
        TimeWindow(moment, moment)
    with pytest.raises(ValueError, match="aware"):
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
    assert list(unfinished_windows(daily, TableLog(), now)) == [
        daily.grid.window(n) for n in (0, 1, 2)
    ]
    assert not list(unfinished_windows(daily, TableLog(), daily.grid.bound(1) - timedelta(hours=1)))
