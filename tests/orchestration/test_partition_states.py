"""After every run Dagster's partitions show what the run log says."""

from tests.orchestration.world import DAILY, EVENTS, World


def test_a_range_whose_third_window_fails_is_green_red_and_missing(world: World) -> None:
    world.write(EVENTS).events(bad_day=3)
    result = world.materialize("ods.events", "2022-01-01", "2022-01-05")
    assert not result.success
    assert world.colours("ods.events") == {
        "materialized": ["2022-01-01", "2022-01-02"],
        "failed": ["2022-01-03"],
    }
    assert world.log("ods.events") == [
        ("20220101", "SUCCESS"),
        ("20220102", "SUCCESS"),
        ("20220103", "FAILURE"),
    ]
