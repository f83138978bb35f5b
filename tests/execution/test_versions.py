"""Attempts carry the version they ran; what operators set is in force at once. Rows D04, D05."""

import pytest

from logdriven_dagster.errors import DisabledError
from logdriven_dagster.execution.arguments import RunArguments
from logdriven_dagster.execution.events import WindowStarted
from logdriven_dagster.execution.local import open_runner
from logdriven_dagster.execution.registering import register
from logdriven_dagster.planning import State
from tests.builders import day
from tests.execution.conftest import NOW, NUMBERS

TENFOLD = NUMBERS.replace("CAST(n AS INT) AS n", "CAST(n AS INT) * 10 AS n")
BROKEN = NUMBERS.replace("CAST(n AS INT) AS n", "CAST('oops' AS INT) AS n")
LATEST = RunArguments(latest=True)


def registered(world):
    """A runner as a new process would have it: the files are applied."""
    found = register(world.root)
    return open_runner(found.project, spark=lambda: world.spark, run_log=found.run_log)


def run(world, *, limit=1, arguments=RunArguments()):
    tables = ["ods.numbers"]
    runner = registered(world)
    return list(runner.catch_up(NOW, tables, max_windows=limit, arguments=arguments))


def versions(world):
    return [
        (row["data_range_start"][6:8], row["status"], row["table_version"])
        for row in world.log("ods.numbers")
    ]


def test_a_run_ends_with_the_version_it_began_with_and_the_next_window_has_the_new_one_d04(world):
    events = registered(world).catch_up(NOW, ["ods.numbers"], max_windows=1)
    assert isinstance(next(events), WindowStarted)
    world.write("tables/numbers.yaml", TENFOLD)
    register(world.root)
    list(events)

    run(world)

    assert versions(world) == [("01", "SUCCESS", 1), ("02", "SUCCESS", 2)]
    assert [n for _, n in world.rows("ods.numbers")] == [11, 12, 210, 220]


def test_a_failed_window_is_tried_again_with_the_version_that_it_ran_d04(world):
    world.write("tables/numbers.yaml", BROKEN)
    run(world)
    world.write("tables/numbers.yaml", NUMBERS)
    run(world)
    assert versions(world) == [("01", "FAILURE", 1), ("01", "FAILURE", 1)]

    run(world, arguments=LATEST)
    assert versions(world)[2:] == [("01", "SUCCESS", 2)]


def test_or_with_the_latest_where_its_table_says_so(world):
    latest = "period: 1 day\n    retry_version: latest"
    world.write("tables/numbers.yaml", BROKEN)
    run(world)
    world.write("tables/numbers.yaml", NUMBERS.replace("period: 1 day", latest))
    run(world)
    assert versions(world) == [("01", "FAILURE", 1), ("01", "SUCCESS", 2)]


def test_a_version_holds_the_files_beside_the_table(world):
    sql_file = NUMBERS.split("sql: >-")[0] + "sql_file: load.sql\n        target: {type: iceberg}"
    world.write("tables/numbers.yaml", sql_file)
    world.write("tables/load.sql", "SELECT CAST('oops' AS INT) AS n FROM source")
    run(world)
    world.write("tables/load.sql", "SELECT 1 AS n")
    run(world)
    assert versions(world) == [("01", "FAILURE", 1), ("01", "FAILURE", 1)]
    run(world, arguments=LATEST)
    assert versions(world)[2:] == [("01", "SUCCESS", 2)]


def test_a_window_that_succeeded_is_refreshed_with_the_latest_version(world):
    run(world)
    world.write("tables/numbers.yaml", TENFOLD)
    list(registered(world).refresh("ods.numbers", day(1), NOW))
    assert versions(world) == [("01", "SUCCESS", 1), ("01", "SUCCESS", 2)]


def test_a_version_of_another_period_has_no_window_in_common_with_this_one(world):
    world.write("tables/numbers.yaml", BROKEN)
    run(world)
    world.write("tables/numbers.yaml", NUMBERS.replace("1 day", "12 hours"))
    run(world)
    assert versions(world)[-1][1:] == ("SUCCESS", 2)


def test_what_an_sql_client_disables_is_not_planned_at_the_next_tick(world):
    runner = registered(world)
    world.sql("UPDATE table_definition SET enabled = 0 WHERE name = 'ods.numbers'")
    planned = next(runner.plan(NOW, ["ods.numbers"]).windows())
    assert (planned.state, planned.reason) == (State.BLOCKED, "its table is disabled")
    assert list(runner.catch_up(NOW, ["ods.numbers"])) == []
    with pytest.raises(DisabledError, match=r"logdriven enable ods\.numbers"):
        list(runner.refresh_window("ods.numbers", day(1), NOW))
    world.sql("UPDATE table_definition SET enabled = 1 WHERE name = 'ods.numbers'")
    assert len(list(runner.catch_up(NOW, ["ods.numbers"], max_windows=1))) == 2


def test_settings_stay_as_an_operator_set_them_when_the_file_changes(world):
    registered(world)
    world.sql("UPDATE table_definition SET retries = 7 WHERE name = 'ods.numbers'")
    world.write("tables/numbers.yaml", TENFOLD)
    assert registered(world).in_force().table("ods.numbers").retries == 7


def test_a_project_that_is_not_registered_runs_without_versions(world):
    world.catch_up(tables=["ods.numbers"], max_windows=1)
    assert versions(world) == [("01", "SUCCESS", None)]
