"""Windows are instants: clocks that go back or forward lose and double nothing."""

from typing import Any

import pytest

from tests.engine.laboratory import Lab

pytestmark = pytest.mark.connect

TARGETS = {
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
