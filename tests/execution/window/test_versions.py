"""Attempts carry the version they ran; what operators set is in force at once. Rows D04, D05."""

import pytest

from logdriven_dagster.errors import DisabledError
from logdriven_dagster.execution.arguments import JobArguments, RunArguments
from logdriven_dagster.execution.definitions.changes import rollback
from logdriven_dagster.execution.definitions.registering import register
from logdriven_dagster.execution.events import WindowStarted
from logdriven_dagster.execution.jobs.standard import run_job
from logdriven_dagster.execution.opening import open_runner
from logdriven_dagster.planning.plan import State
from tests.builders import day
from tests.execution.conftest import BROKEN, NOW, NUMBERS

TENFOLD = NUMBERS.replace("CAST(n AS INT) AS n", "CAST(n AS INT) * 10 AS n")
RECORDED = RunArguments(retry_version="recorded")
LATEST = RunArguments(retry_version="latest")
IN_PYTHON = NUMBERS.split("sql: >-")[0] + "python: clean.py:run\n        target: {type: iceberg}"
AS_RECORDED = "period: 1 day\n    retry_version: recorded"


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


def test_a_run_ends_with_the_version_it_began_with_and_the_next_window_has_the_new_one_d04(
    spark, world
):
    events = registered(world).catch_up(NOW, ["ods.numbers"], max_windows=1)
    assert isinstance(next(events), WindowStarted)
    world.write("tables/numbers.yaml", TENFOLD)
    register(world.root)
    list(events)

    run(world)

    assert versions(world) == [("01", "SUCCESS", 1), ("02", "SUCCESS", 2)]
    assert [n for _, n in world.rows("ods.numbers")] == [11, 12, 210, 220]


def test_a_failed_window_is_tried_again_with_the_definition_in_force_d04(world):
    world.write("tables/numbers.yaml", BROKEN)
    run(world)
    world.write("tables/numbers.yaml", NUMBERS)
    run(world)
    assert versions(world) == [("01", "FAILURE", 1), ("01", "SUCCESS", 2)]


def test_so_it_is_with_the_files_next_to_the_table(spark, world):
    sql_file = NUMBERS.split("sql: >-")[0] + "sql_file: load.sql\n        target: {type: iceberg}"
    world.write("tables/numbers.yaml", sql_file)
    world.write("tables/load.sql", "SELECT CAST('oops' AS INT) AS n FROM source")
    run(world)
    world.write("tables/load.sql", "SELECT 1 AS n")
    run(world)
    assert versions(world) == [("01", "FAILURE", 1), ("01", "SUCCESS", 2)]


def test_a_python_file_that_was_mended_is_the_one_that_runs(spark, world):
    world.write("tables/numbers.yaml", IN_PYTHON)
    world.write("tables/clean.py", "def run(source):\n    raise ValueError('line 2')")
    run(world)
    world.write("tables/clean.py", "def run(source):\n    return source")
    run(world)
    assert versions(world) == [("01", "FAILURE", 1), ("01", "SUCCESS", 2)]


@pytest.mark.parametrize(
    ("arguments", "text"),
    [(RECORDED, "period: 1 day"), (RunArguments(), AS_RECORDED)],
    ids=["asked for", "in the table's file"],
)
def test_recorded_runs_the_version_of_the_last_attempt_and_reports_it_d04(world, arguments, text):
    world.write("tables/numbers.yaml", BROKEN)
    run(world)
    world.write("tables/numbers.yaml", NUMBERS.replace("period: 1 day", text))
    events = run(world, arguments=arguments)
    assert versions(world) == [("01", "FAILURE", 1), ("01", "FAILURE", 1)]
    told = "version 1, as in its last attempt, not version 2, which is in force"
    assert events[0].attempt.claim.other_version == told
    assert world.log("ods.numbers")[-1]["runtime_args"] == {"--definition": told}

    run(world, arguments=LATEST)
    assert versions(world)[2:] == [("01", "SUCCESS", 2)]


def test_a_job_may_set_recorded_for_its_tables(world):
    job = "job: nightly\ntables: [ods.numbers]\nretry_version: recorded\nmax_windows: 1"
    world.write("jobs/nightly.yaml", job)
    world.write("tables/numbers.yaml", BROKEN)
    run(world)
    world.write("tables/numbers.yaml", NUMBERS)
    list(run_job(registered(world), "nightly", NOW))
    assert versions(world) == [("01", "FAILURE", 1), ("01", "FAILURE", 1)]
    list(run_job(registered(world), "nightly", NOW, JobArguments(retry_version="latest")))
    assert versions(world)[2:] == [("01", "SUCCESS", 2)]


def test_a_version_that_was_rolled_back_to_is_shown_as_different_from_the_file(world):
    run(world)
    world.write("tables/numbers.yaml", TENFOLD)
    rollback(world.root, "ods.numbers", 1)
    started = run(world)[0]
    told = "version 3 of the registry, not that of its file"
    assert started.attempt.claim.other_version == told


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
        list(runner.refresh_windows("ods.numbers", [day(1)], NOW))
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
