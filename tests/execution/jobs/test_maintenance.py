"""Maintenance jobs: ordered steps of upkeep. Checklist rows in the names. Source: Kettle."""

import time

import pytest
from sqlalchemy import create_engine, text

from logdriven_dagster.config import load_project
from logdriven_dagster.errors import InvalidProjectError, UsageError
from logdriven_dagster.execution.definitions.registering import register
from logdriven_dagster.execution.jobs.events import StepEnded, StepTriedAgain
from logdriven_dagster.execution.jobs.standard import run_job
from logdriven_dagster.execution.opening import open_runner
from logdriven_dagster.runlog.jobs import history as job_history
from tests.execution.conftest import NOW
from tests.execution.jobs.running import ended, run, runs
from tests.patience import within

HEAD = "job: sweep\ntype: maintenance\n"
CONNECTION = "project: world\nvariables: {{keep: 2}}\nconnections: {{shop: {{url: '{url}'}}}}\n"


@pytest.fixture
def sweep(world):
    """Writes the job: its steps append their names to a list, unless they are told otherwise."""
    world.write("jobs/steps.py", STEPS)
    world.write("logdriven.yaml", CONNECTION.format(url="sqlite:///shop.db"))
    return lambda *steps, more="": world.write(
        "jobs/sweep.yaml", HEAD + more + "steps:\n" + "\n".join(f"  - {{{s}}}" for s in steps)
    )


STEPS = """
    from pathlib import Path

    DONE = Path(__file__).with_name("done.txt")


    def note(options):
        with DONE.open("a") as file:
            file.write(options["name"] + " ")


    def fail(options):
        note(options)
        raise OSError("disk is full")


    def fail_until(options):
        note(options)
        if DONE.read_text().split().count(options["name"]) < options["times"]:
            raise ValueError("not yet")
        return 5
"""


def step(order, name, function="note", more=""):
    python = f"python: 'steps.py:{function}', options: {{name: '{name}', times: 3}}"
    return f"exec_order: {order}, step: {name}, {python}{more}"


def done(world):
    file = world.root / "jobs/done.txt"
    return file.read_text().split() if file.exists() else []


def steps(world):
    """Order, status and rows of the steps of the newest run."""
    with world.runner.run_log.read() as conn:
        code = conn.exec_driver_sql("SELECT job_code FROM job_run").scalar()
        (newest,) = job_history.read_latest_runs(conn, [code]).values()
    return [(s["step_id"], s["status"], s["row_count"]) for s in newest["steps"]]


def test_steps_run_by_ascending_order_and_gaps_are_allowed_m01(world, sweep):
    sweep(step(30, "c"), step(10, "a"), step(20, "b"))
    assert ended(run(world, "sweep")) == "SUCCESS"
    assert done(world) == ["a", "b", "c"]


def test_two_steps_of_one_order_are_refused_m02(world, sweep):
    sweep(step(10, "a"), step(10, "b"))
    with pytest.raises(InvalidProjectError, match="exec_order 10 is given twice"):
        load_project(world.root)


def test_a_disabled_step_is_passed_over_m03(world, sweep):
    sweep(step(10, "a"), step(20, "b", more=", enabled: false"), step(30, "c"))
    assert ended(run(world, "sweep")) == "SUCCESS"
    assert done(world) == ["a", "c"]


def test_a_step_that_fails_after_all_tries_ends_the_job_m04(world, sweep):
    sweep(step(10, "a"), step(20, "b", "fail"), step(30, "c"), more="retries: 2\n")
    assert ended(run(world, "sweep")) == "FAILURE"
    assert done(world) == ["a", "b", "b", "b"]  # 3 tries in all, whatever the error is
    assert steps(world) == [("a", "SUCCESS", 0), ("b", "FAILURE", 0), ("c", "READY", 0)]
    (row,) = runs(world, "sweep")
    assert row["error"].startswith("step b: OSError: disk is full")


@pytest.mark.usefixtures("slow")
def test_a_step_that_succeeds_at_last_keeps_its_failed_tries(world, sweep):
    sweep(step(10, "a", "fail_until"), more="retries: 2\nretry_interval: 1 s\n")
    began = time.monotonic()
    events = run(world, "sweep")
    assert time.monotonic() - began > 2
    assert len([e for e in events if isinstance(e, StepTriedAgain)]) == 2
    (last,) = [e.result for e in events if isinstance(e, StepEnded)]
    assert (last.status.value, last.row_count, last.error_count) == ("SUCCESS", 5, 2)
    assert steps(world) == [("a", "SUCCESS", 5)]


def test_after_the_last_step_the_job_is_a_success_m05(world, sweep):
    sweep(step(10, "a"), step(20, "b", more=", enabled: false"))
    assert ended(run(world, "sweep")) == "SUCCESS"
    assert steps(world) == [("a", "SUCCESS", 0)]


def test_started_again_a_job_goes_on_at_the_step_that_failed_m06(world, sweep):
    sweep(step(10, "a"), step(20, "b", "fail"), step(30, "c"))
    run(world, "sweep")
    sweep(step(10, "a"), step(20, "b"), step(30, "c"))
    run(world, "sweep")
    assert done(world) == ["a", "b", "b", "c"]
    run(world, "sweep")
    assert done(world)[4:] == ["a", "b", "c"]


def test_started_again_it_begins_at_the_requested_step_m06(world, sweep):
    sweep(step(10, "a"), step(20, "b", "fail"), step(30, "c"))
    run(world, "sweep")
    run(world, "sweep", from_start=True)
    run(world, "sweep", from_step="c")
    assert done(world) == ["a", "b", "a", "b", "c"]
    with pytest.raises(UsageError, match="sweep has no enabled step d; its steps are a, b, c"):
        run(world, "sweep", from_step="d")


def test_a_step_that_an_sql_client_disables_is_passed_over_m03(world, sweep):
    sweep(step(10, "a"), step(20, "b"), step(30, "c"))
    project = register(world.root).project
    world.sql("UPDATE step_definition SET enabled = 0 WHERE name = 'sweep.b'")
    runner = open_runner(project, spark=lambda: world.spark)
    assert ended(list(run_job(runner, "sweep", NOW))) == "SUCCESS"
    assert done(world) == ["a", "c"]


def test_a_failed_step_that_was_disabled_since_leaves_its_place_m06(world, sweep):
    sweep(step(10, "a"), step(20, "b", "fail"), step(30, "c"))
    run(world, "sweep")
    sweep(step(10, "a"), step(20, "b", more=", enabled: false"), step(30, "c"))
    run(world, "sweep")
    assert done(world) == ["a", "b", "c"]


def test_a_job_without_enabled_steps_succeeds_with_a_warning_m08(world, sweep):
    sweep(step(10, "a", more=", enabled: false"))
    started, last = run(world, "sweep")
    assert started.notes == ("it has no steps to run",)
    assert last.status.value == "SUCCESS"


def test_the_body_of_a_step_is_loaded_when_its_turn_comes_d09(world, sweep):
    world.write("jobs/later.py", "raise RuntimeError('loaded too early')")
    world.write(
        "jobs/steps.py",
        """
        from pathlib import Path

        def mend():
            Path(__file__).with_name("later.py").write_text("def work(): return 'mended'")
        """,
    )
    later = "exec_order: 20, step: b, python: 'later.py:work'"
    sweep("exec_order: 10, step: a, python: 'steps.py:mend'", later)
    assert ended(run(world, "sweep")) == "SUCCESS"


def test_sql_runs_on_a_connection_in_one_transaction(world, sweep, database_url):
    world.write("logdriven.yaml", CONNECTION.format(url=database_url))
    database = create_engine(database_url)
    with database.begin() as conn:
        conn.execute(text("CREATE TABLE sale (n INTEGER, t VARCHAR(20))"))
        conn.execute(text("INSERT INTO sale VALUES (1, 'a'), (2, 'b'), (3, 'c')"))
    rows = "exec_order: 10, step: trim, connection: shop, "
    sweep(rows + "sql: ['DELETE FROM sale WHERE n > :keep', \"UPDATE sale SET t = '10:30 :x'\"]")
    assert ended(run(world, "sweep")) == "SUCCESS"
    assert steps(world) == [("trim", "SUCCESS", 3)]
    sweep(rows + "sql: ['DELETE FROM sale', 'DELETE FROM nothing']")
    assert ended(run(world, "sweep")) == "FAILURE"
    with database.connect() as conn:
        left = conn.execute(text("SELECT n, t FROM sale ORDER BY n")).all()
        conn.rollback()
    with database.begin() as conn:
        conn.execute(text("DROP TABLE sale"))
    assert left == [(1, "10:30 :x"), (2, "10:30 :x")]
    database.dispose()


def test_a_statement_outside_a_transaction_and_errors_of_queries(world, sweep):
    sql = "exec_order: 10, step: tidy, connection: shop, transaction: false, "
    sweep(sql + "sql: [VACUUM, 'SELECT ${keep} AS kept']")
    (last,) = [e.result for e in run(world, "sweep") if isinstance(e, StepEnded)]
    assert (last.status.value, last.output) == ("SUCCESS", "kept=2")


def test_a_secret_of_a_statement_is_in_no_log(world, sweep, monkeypatch):
    monkeypatch.setenv("NEW_PASSWORD", "hunter-hunter")
    sweep("exec_order: 10, step: bad, connection: shop, sql: \"ALTER '${env:NEW_PASSWORD}'\"")
    events = run(world, "sweep")
    assert ended(events) == "FAILURE"
    assert "hunter" not in repr(events) + repr(runs(world, "sweep"))
    assert "***" in runs(world, "sweep")[0]["error"]


@pytest.mark.usefixtures("slow")
def test_a_statement_that_takes_too_long_is_cancelled(world, sweep):
    endless = "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) SELECT max(x) FROM n"
    sweep(
        f"exec_order: 10, step: slow, connection: shop, sql: '{endless}'",
        more="timeout: 1 s\nretries: 5\n",
    )
    with within(10):
        assert ended(run(world, "sweep")) == "FAILURE"
    assert "exceeds its timeout" in runs(world, "sweep")[0]["error"]


def test_spark_sql_reads_tables_by_their_names(spark, world, sweep):
    world.catch_up(tables=["ods.numbers"], max_windows=2)
    make = "CREATE TABLE copied USING parquet AS SELECT * FROM ods.numbers"
    sweep(
        "exec_order: 10, step: show, sql: 'SELECT count(*) AS n FROM ods.numbers WHERE n > :keep'",
        f"exec_order: 20, step: copy, sql: ['{make}', 'DROP TABLE copied']",
    )
    told = [e.result for e in run(world, "sweep") if isinstance(e, StepEnded)]
    assert [r.status.value for r in told] == ["SUCCESS", "SUCCESS"], told
    assert told[0].output == "n=4"
    assert told[1].row_count == 4


def test_a_python_step_gets_what_its_parameters_name(spark, world, sweep):
    world.write(
        "jobs/steps.py",
        """
        def show(spark, project, run_log, options, variables, job_run_id):
            assert run_log.engine and options == {"deep": True}
            n = spark.range(3).count()
            return f"{project.name} {n} {variables['keep']} {job_run_id}"

        def lost(missing):
            pass

        def leave():
            raise SystemExit(3)
        """,
    )
    sweep("exec_order: 10, step: a, python: 'steps.py:show', options: {deep: true}")
    (last,) = [e.result for e in run(world, "sweep") if isinstance(e, StepEnded)]
    assert last.output == "world 3 2 1"
    for name, error in (("lost", "no value for parameter 'missing'"), ("leave", "sys.exit(3)")):
        sweep(f"exec_order: 10, step: a, python: 'steps.py:{name}'")
        (last,) = [e.result for e in run(world, "sweep") if isinstance(e, StepEnded)]
        assert error in last.error


def test_our_own_upkeep_is_a_step(world, sweep):
    world.catch_up(tables=["ods.numbers"])
    sweep(
        "exec_order: 10, step: expire, upkeep: expire_snapshots, older_than: 0 s",
        "exec_order: 20, step: compact, upkeep: compact_files, tables: [ods.numbers]",
        "exec_order: 30, step: archive, upkeep: archive_log, older_than: 30 days",
        "exec_order: 40, step: tidy, upkeep: clean",
    )
    told = {e.step.step: e.result for e in run(world, "sweep") if isinstance(e, StepEnded)}
    assert {r.status.value for r in told.values()} == {"SUCCESS"}, told
    assert "ods.numbers: " in told["expire"].output
    assert told["archive"].output == "0 attempts moved to the archive tables"


@pytest.mark.parametrize(
    ("upkeep", "mistake"),
    [
        ("upkeep: archive_log", "must be at least 1 day for archive_log"),
        ("upkeep: clean, options: {x: 1}", "clean has no option x"),
        ("upkeep: expire_snapshots, options: {keep: 0}", "keep: "),
        (
            "upkeep: compact_files, options: {min: 3}",
            "compact_files has no option min; its options are",
        ),
        ("upkeep: clean, connection: shop", "connection: only for sql"),
    ],
)
def test_upkeep_that_cannot_be_done_is_a_mistake(world, sweep, upkeep, mistake):
    sweep(f"exec_order: 10, step: a, {upkeep}")
    with pytest.raises(InvalidProjectError, match=mistake):
        load_project(world.root)
