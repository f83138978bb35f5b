"""A catch-up with several windows in work marks every partition as the log does."""

from typing import Any

import pytest
from dagster import DagsterEventType

from tests.orchestration.world import ALONE, EVENTS, World

OTHER: dict[str, Any] = {**ALONE, "table": "ods.other", "ordered": False}
DAYS = [f"2022-01-{day:02}" for day in range(1, 6)]


@pytest.mark.usefixtures("long")
def test_partitions_are_marked_right_with_three_windows_in_work(world: World) -> None:
    world.write(EVENTS, ALONE, OTHER).events(bad_day=3, days=5)
    result = world.catch_up(now="2022-01-06", max_parallel=3)
    assert not result.success
    assert world.colours("ods.events") == {"materialized": DAYS[:2], "failed": DAYS[2:3]}
    for table in ("ods.alone", "ods.other"):
        assert world.colours(table) == {"materialized": DAYS}
        assert sorted(world.log(table)) == [(d.replace("-", ""), "SUCCESS") for d in DAYS]


def test_windows_of_one_pass_are_reported_when_they_end(world: World) -> None:
    world.write({**EVENTS, "batch_size": "all"}).events(days=5)
    result = world.catch_up(now="2022-01-06")
    assert world.colours("ods.events") == {"materialized": DAYS}
    planned = DagsterEventType.ASSET_MATERIALIZATION_PLANNED
    assert world.instance.all_logs(result.run_id, planned) == []
    told = [entry.user_message for entry in world.instance.all_logs(result.run_id)]
    (begun,) = [text for text in told if "in one batch" in text]
    first = "ods.events [2022-01-01, 2022-01-02): job 1"
    assert begun == f"{first}, with 4 later windows in one batch"


def test_where_one_of_a_pass_fails_it_is_red_and_those_before_it_are_green(world: World) -> None:
    world.write({**EVENTS, "batch_size": "all"}).events(bad_day=3, days=5)
    assert not world.catch_up(now="2022-01-06").success
    assert world.colours("ods.events") == {"materialized": DAYS[:2], "failed": DAYS[2:3]}


def test_a_job_states_how_many_windows_it_has_in_work(world: World) -> None:
    job = {"job": "both", "tables": ["ods.alone", "ods.other"], "max_parallel": 2}
    world.write(ALONE, OTHER, jobs=(job,))
    config = {"ops": {"both": {"config": {"now": "2022-01-06"}}}}
    assert world.run("both", config).success
    for table in ("ods.alone", "ods.other"):
        assert world.colours(table) == {"materialized": DAYS}
