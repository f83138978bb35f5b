"""Partitions are exactly the windows: by cron where cron can say it, else dynamic."""

from datetime import datetime
from itertools import pairwise
from zoneinfo import ZoneInfo

import pytest
from dagster import (
    AllPartitionMapping,
    IdentityPartitionMapping,
    LastPartitionMapping,
    TimeWindowPartitionMapping,
    TimeWindowPartitionsDefinition,
)
from hypothesis import given, settings
from hypothesis import strategies as st

from logdriven_dagster.config.models.dependencies import Dependency
from logdriven_dagster.errors import UsageError
from logdriven_dagster.model.periods import Grid, Period
from logdriven_dagster.model.windows import on_clock
from logdriven_dagster.orchestration.assets.partitions import partition_mapping, partitions_of
from tests.random_examples import examples

ZONES = ["UTC", "Europe/Berlin", "America/Sao_Paulo", "Australia/Lord_Howe", "Asia/Beirut"]
MINUTES = [1, 5, 7, 15, 45, 60, 90, 180, 360, 420, 1440, 2880, 10080]
PERIODS = [*MINUTES, "1 month", "3 months", "1 year"]
STARTS = [datetime(2013, 1, 1), datetime(2013, 2, 3, 2, 30), datetime(2013, 1, 7, 1)]


def grid(period: int | str, zone: str = "UTC", start: datetime = STARTS[0]) -> Grid:
    return Grid(on_clock(start, ZoneInfo(zone)), Period.parse(period))


@pytest.mark.parametrize(
    ("period", "zone", "cron"),
    [
        (15, "Europe/Berlin", "0,15,30,45 * * * *"),
        (60, "Europe/Berlin", "0 * * * *"),
        (360, "UTC", "0 0,6,12,18 * * *"),
        (1440, "Europe/Berlin", "0 0 * * *"),
        (10080, "UTC", "0 0 * * 2"),
        ("1 month", "UTC", "0 0 1 * *"),
        ("3 months", "UTC", "0 0 1 1,4,7,10 *"),
    ],
)
def test_cron_where_it_is_exact(period: int | str, zone: str, cron: str) -> None:
    definition = partitions_of(grid(period, zone)).definition
    assert isinstance(definition, TimeWindowPartitionsDefinition)
    assert definition.cron_schedule == cron


@pytest.mark.parametrize(
    ("period", "zone"),
    [(7, "UTC"), (45, "UTC"), (90, "UTC"), (2880, "UTC"), (360, "Europe/Berlin")],
)
def test_dynamic_where_cron_would_cut_other_windows(period: int, zone: str) -> None:
    assert partitions_of(grid(period, zone)).dynamic_name


@pytest.mark.usefixtures("slow")
@settings(max_examples=examples(150))
@given(
    st.sampled_from(ZONES), st.sampled_from(PERIODS), st.sampled_from(STARTS), st.integers(0, 9000)
)
def test_a_key_names_its_window_and_dagster_agrees(
    zone: str, period: int | str, start: datetime, n: int
) -> None:
    partitions = partitions_of(grid(period, zone, start))
    n = n % 20 if "month" in str(period) or "year" in str(period) else n
    window = partitions.grid.window(n)
    key = partitions.key(window)
    assert partitions.window(key) == window
    if isinstance(partitions.definition, TimeWindowPartitionsDefinition):
        theirs = partitions.definition.time_window_for_partition_key(key)
        assert theirs.start.timestamp() == window.start.timestamp()
        assert theirs.end.timestamp() == window.end.timestamp()


def test_the_hour_that_exists_twice_has_two_keys() -> None:
    partitions = partitions_of(grid(60, "Europe/Berlin", datetime(2013, 10, 27)))
    keys = [partitions.key(partitions.grid.window(n)) for n in range(1, 5)]
    assert keys == [
        "2013-10-27-01:00",
        "2013-10-27-02:00",
        "2013-10-27-02:00+0100",
        "2013-10-27-03:00",
    ]


def test_a_range_goes_from_the_oldest_key_to_the_end_of_the_newest() -> None:
    partitions = partitions_of(grid(1440))
    assert str(partitions.range(["2013-01-03", "2013-01-02"])) == "[2013-01-02, 2013-01-04)"


@pytest.mark.parametrize("key", ["2013-01-01-00:30", "yesterday"])
def test_a_key_of_no_window_is_refused(key: str) -> None:
    with pytest.raises(UsageError, match="is not a partition"):
        partitions_of(grid(60)).window(key)


def test_equal_grids_share_one_definition() -> None:
    assert partitions_of(grid(1440)).definition is partitions_of(grid("1 day")).definition


def test_grids_of_two_zones_that_start_at_one_instant_differ() -> None:
    utc, berlin = grid(1440), grid(1440, "Europe/Berlin", datetime(2013, 1, 1, 1))
    assert utc.origin == berlin.origin
    assert partitions_of(utc).definition != partitions_of(berlin).definition


@pytest.mark.parametrize(
    ("upstream", "downstream", "window", "expected"),
    [
        (1440, 1440, "overlapping", IdentityPartitionMapping),
        (60, 1440, "overlapping", TimeWindowPartitionMapping),
        (90, 1440, "overlapping", AllPartitionMapping),
        (1440, 90, "overlapping", AllPartitionMapping),
        (1440, 1440, "none", LastPartitionMapping),
    ],
)
def test_windows_meet_by_overlap_where_dagster_can_express_it(
    upstream: int, downstream: int, window: str, expected: type
) -> None:
    dependency = Dependency.model_validate({"table": "a.b", "window": window})
    mapping = partition_mapping(
        partitions_of(grid(upstream)), partitions_of(grid(downstream)), dependency
    )
    assert isinstance(mapping, expected)


def test_keys_ascend_with_their_windows() -> None:
    partitions = partitions_of(grid(90))
    keys = [partitions.key(partitions.grid.window(n)) for n in range(100)]
    assert all(first < second for first, second in pairwise(keys))
