"""Windows are instants: clocks that go back or forward lose and double nothing."""

from typing import Any

import pytest

from tests.engine.laboratory import Lab

pytestmark = pytest.mark.connect

TARGETS: dict[str, dict[str, str]] = {
    "iceberg": {"type": "iceberg"},
    "parquet": {"type": "parquet"},
    "csv": {"type": "csv"},
    "json": {"type": "json"},
    "sqlite": {"type": "jdbc", "connection": "lite", "table": "t"},
}
QUERY = (
    "SELECT unix_seconds(:data_range_start) AS at, '${DATA_RANGE_START}' AS text, "
    "unix_seconds(timestamp'${DATA_RANGE_START}') AS same"
)


@pytest.fixture(params=TARGETS)
def berlin(request: pytest.FixtureRequest, lab: Lab) -> Lab:
    """An hourly table over the night in which clocks go back."""
    lab.settings["timezone"] = "Europe/Berlin"
    step = {"sql": QUERY, "target": TARGETS[request.param]}
    lab.table("ods.t", step, period=60, default_start="2022-10-30")
    return lab


def test_a_bound_within_a_string_is_text_also_after_a_comment(lab: Lab):
    sql = "SELECT /* /* */ ' */ unix_seconds(:data_range_start) AS at, ':data_range_end' AS text"
    lab.table("ods.t", {"sql": sql, "target": TARGETS["parquet"]})
    window = lab.project.table("ods.t").grid.window(0)  # type: ignore[union-attr]
    lab.run("ods.t", window)
    assert lab.rows("ods.t") == [(window.start.timestamp(), ":data_range_end")]


@pytest.mark.sampled
def test_an_hour_that_exists_twice_is_two_windows(berlin: Lab):
    grid: Any = berlin.project.table("ods.t").grid
    for n in (2, 3, 2):
        berlin.run("ods.t", grid.window(n))
    first, second = (grid.window(n) for n in (2, 3))
    assert [row[0] for row in berlin.rows("ods.t")] == [
        first.start.timestamp(),
        second.start.timestamp(),
    ]
    assert [row[1:] for row in berlin.rows("ods.t", second)] == [
        ("2022-10-30 02:00:00+01:00", second.start.timestamp())
    ]


@pytest.mark.sampled
@pytest.mark.parametrize("target", TARGETS.values(), ids=TARGETS)
def test_what_is_replaced_as_a_whole_holds_the_newer_of_two_equal_hours(
    lab: Lab, target: dict[str, str]
):
    """02:30 of summer comes before 02:00 of winter, though not by their texts."""
    lab.settings["timezone"] = "Europe/Berlin"
    step = {"sql": QUERY, "target": {**target, "mode": "overwrite"}}
    lab.table("ods.t", step, period=30, default_start="2022-10-30")
    grid: Any = lab.project.table("ods.t").grid
    older, newer = grid.window(5), grid.window(6)
    for window in (older, newer, older):
        lab.run("ods.t", window)
    assert [row[0] for row in lab.rows("ods.t")] == [newer.start.timestamp()]
