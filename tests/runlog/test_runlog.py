"""The run log over SQLite, PostgreSQL and MariaDB. Sources: Sharp ETL's tables, Kettle's views."""

import multiprocessing
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace

import pytest
from sqlalchemy import inspect, text
from sqlalchemy.engine import make_url

from logdriven_dagster.errors import (
    AlreadyDoneError,
    AlreadyRunningError,
    AttemptLostError,
    RunLogError,
)
from logdriven_dagster.model.attempts import (
    AttemptOutcome,
    Claim,
    Counts,
    Owner,
    Status,
    StepOutcome,
    Trigger,
)
from logdriven_dagster.model.windows import TimeWindow
from logdriven_dagster.runlog import RunLog, attempts, history
from logdriven_dagster.runlog.migrating import script_directory
from logdriven_dagster.runlog.schema import VIEWS, job_log, metadata, step_log
from logdriven_dagster.runlog.store import HEAD
from tests.builders import at, day, days, hours, table

ME = Owner("here", 10, 20, "run-1")


def request(window: TimeWindow, trigger=Trigger.PENDING, name="ods.t", owner=ME, now="2022-02-01"):
    return Claim(name, window, 1440, "time_window", "project", trigger, owner, at(now))


@pytest.fixture
def log(database_url):
    opened = RunLog.open(database_url)
    yield opened
    opened.engine.dispose()


def start(log, window, trigger=Trigger.PENDING, **fields):
    def work(conn):
        attempt = attempts.claim(conn, request(window, trigger, **fields))
        attempts.start_step(conn, attempt, "load")
        return attempt

    return log.write(work)


def end(log, attempt, status=Status.SUCCESS, error=None, rows=5):
    counts = Counts(rows, rows, rows, 0)
    outcome = StepOutcome(status, counts, "csv", "iceberg", "", error)

    def work(conn):
        attempts.finish_step(conn, attempt, "load", outcome)
        attempts.finish(conn, attempt, AttemptOutcome(status, "app-1", "a.csv", 0))

    log.write(work)


def succeed(log, window, **fields):
    end(log, start(log, window, **fields))


def fail(log, window, error="broken", **fields):
    end(log, start(log, window, **fields), Status.FAILURE, error)


def table_log(log, *tables):
    tables = tables or (table(),)
    with log.read() as conn:
        logs = history.table_logs(conn, tables)
    return logs if len(tables) > 1 else logs[tables[0].table]


def rows(log, query):
    with log.read() as conn:
        return [dict(row._mapping) for row in conn.execute(text(query))]


def execute(log, statement):
    with log.begin() as conn:
        return conn.execute(text(statement)).rowcount


def test_the_columns_are_those_of_sharp_etl(log):
    inspector = inspect(log.engine)
    columns = [column["name"] for column in inspector.get_columns("job_log")]
    assert columns[:15] == [
        "job_id",
        "job_name",
        "job_period",
        "job_schedule_id",
        "data_range_start",
        "data_range_end",
        "job_start_time",
        "job_end_time",
        "status",
        "create_time",
        "last_update_time",
        "incremental_type",
        "current_file",
        "application_id",
        "project_name",
    ]
    assert inspector.get_pk_constraint("step_log")["constrained_columns"] == ["job_id", "step_id"]


def test_every_column_of_a_finished_attempt_is_filled(log):
    succeed(log, day(2))
    with log.read() as conn:
        (row,) = history.attempts(conn)
    assert row["job_name"] == "ods.t"
    assert row["job_schedule_id"] == "ods.t-20220102000000"
    assert (row["data_range_start"], row["data_range_end"]) == ("20220102000000", "20220103000000")
    assert (row["status"], row["job_period"], row["project_name"]) == ("SUCCESS", 1440, "project")
    assert (row["application_id"], row["current_file"]) == ("app-1", "a.csv")
    assert (row["owner"], row["dagster_run_id"]) == ("here:10:20", "run-1")
    assert row["job_start_time"] <= row["job_end_time"] <= row["last_update_time"]
    (step,) = row["steps"]
    assert (step["step_id"], step["status"], step["error"]) == ("load", "SUCCESS", None)
    assert (step["source_count"], step["target_count"]) == (5, 5)
    assert (step["success_count"], step["failure_count"]) == (5, 0)
    assert (step["source_type"], step["target_type"]) == ("csv", "iceberg")
    assert step["duration"] >= 0


def test_opening_again_changes_nothing(log):
    succeed(log, day(1))
    RunLog.open(log.engine.url)
    assert len(rows(log, "SELECT * FROM job_log")) == 1


def test_the_migrations_make_the_schema_that_the_code_expects(log):
    assert script_directory().get_current_head() == HEAD
    inspector = inspect(log.engine)
    for expected in metadata.tables.values():
        found = [column["name"] for column in inspector.get_columns(expected.name)]
        assert found == [column.name for column in expected.columns]
        indexes = {index["name"] for index in inspector.get_indexes(expected.name)}
        assert {index.name for index in expected.indexes} <= indexes
    assert set(VIEWS) <= set(inspector.get_view_names())


def test_a_log_of_a_newer_version_is_refused(log):
    execute(log, "UPDATE logdriven_version SET version_num = '9999'")
    with pytest.raises(RunLogError, match="newer"):
        RunLog.open(log.engine.url)


def test_an_unreachable_log_is_one_clear_error_without_the_password():
    with pytest.raises(RunLogError, match="cannot use the run log") as caught:
        RunLog.open("postgresql+psycopg://me:topsecret@127.0.0.1:1/none")
    assert "topsecret" not in str(caught.value)


def test_a_log_that_goes_away_is_one_clear_error(log):
    with pytest.raises(RunLogError, match="cannot use the run log"):
        rows(log, "SELECT * FROM nowhere")


def test_a_malformed_url_is_one_clear_error():
    with pytest.raises(RunLogError, match="not an SQLAlchemy URL"):
        RunLog.open("no url at all")


def test_a_schema_that_was_begun_is_completed(log):
    execute(log, "DELETE FROM logdriven_version")
    execute(log, "DROP VIEW v_table_log")
    RunLog.open(log.engine.url)
    assert rows(log, "SELECT * FROM v_table_log") == []


def test_an_unknown_kind_of_database_is_refused():
    with pytest.raises(RunLogError, match="use sqlite"):
        RunLog.open("nosuch://host/db")


def test_a_running_window_is_not_started_again(log):
    start(log, day(1))
    with pytest.raises(AlreadyRunningError, match="job 1 of here:10:20"):
        start(log, day(1))
    with pytest.raises(AlreadyRunningError):
        start(log, day(1), Trigger.REFRESH)


def test_a_finished_window_runs_again_only_as_a_refresh(log):
    succeed(log, day(1))
    with pytest.raises(AlreadyDoneError, match="done already"):
        start(log, day(1))
    again = start(log, day(1), Trigger.REFRESH)
    assert again.attempt_number == 2


def test_a_failed_window_may_be_claimed_again(log):
    fail(log, day(1))
    assert start(log, day(1)).attempt_number == 2


def test_one_attempt_of_a_window_is_the_latest_by_the_schema(log):
    fail(log, day(1))
    fail(log, day(1))
    succeed(log, day(1))
    assert [row["status"] for row in rows(log, "SELECT status FROM v_window_log")] == ["SUCCESS"]
    assert rows(log, "SELECT count(*) AS n FROM job_log")[0]["n"] == 3


def test_an_attempt_that_somebody_else_ended_cannot_finish(log):
    attempt = start(log, day(1))
    execute(log, "UPDATE job_log SET status = 'FAILURE'")
    with pytest.raises(AttemptLostError):
        end(log, attempt)


def test_only_the_owner_finishes_an_attempt(log):
    attempt = start(log, day(1))
    stranger = replace(attempt, claim=replace(attempt.claim, owner=Owner("there", 1, 1)))
    with pytest.raises(AttemptLostError), log.begin() as conn:
        attempts.finish(conn, stranger, AttemptOutcome(Status.SUCCESS))


def test_a_step_ends_once(log):
    attempt = start(log, day(1))
    end(log, attempt)
    with pytest.raises(AttemptLostError, match="step load"), log.begin() as conn:
        attempts.finish_step(conn, attempt, "load", StepOutcome(Status.FAILURE))


def test_a_retried_step_begins_anew(log):
    attempt = start(log, day(1))
    with log.begin() as conn:
        attempts.finish_step(conn, attempt, "load", StepOutcome(Status.FAILURE, error="first"))
        attempts.start_step(conn, attempt, "load")
    end(log, attempt)
    assert [row["error"] for row in rows(log, "SELECT error FROM step_log")] == [None]


def test_a_step_cannot_start_in_an_attempt_that_was_ended(log):
    attempt = start(log, day(1))
    with log.begin() as conn:
        attempts.abandon(conn, attempt.job_id, ME, "its runner died")
    with pytest.raises(AttemptLostError), log.begin() as conn:
        attempts.start_step(conn, attempt, "load")


def test_the_error_of_the_step_that_failed_is_the_one_shown(log):
    attempt = start(log, day(1))
    with log.begin() as conn:
        attempts.start_step(conn, attempt, "second")
        attempts.finish_step(conn, attempt, "second", StepOutcome(Status.FAILURE, error="real"))
        attempts.finish(conn, attempt, AttemptOutcome(Status.FAILURE))
    assert table_log(log).open[0].error == "real"


@pytest.mark.parametrize("text", ["a\0b", "half \ud800 character", "é" * 80_000])
def test_any_text_can_be_logged(log, text):
    attempt = start(log, day(1))
    with log.begin() as conn:
        outcome = StepOutcome(Status.FAILURE, output=text, error=text)
        attempts.finish_step(conn, attempt, "load", outcome)
        attempts.finish(conn, attempt, AttemptOutcome(Status.FAILURE, current_file=text))
    assert table_log(log).open[0].error


def test_a_failed_attempt_closes_its_running_steps(log):
    attempt = start(log, day(1))
    with log.begin() as conn:
        attempts.finish(conn, attempt, AttemptOutcome(Status.FAILURE))
    assert rows(log, "SELECT status FROM step_log") == [{"status": "FAILURE"}]


def test_the_attempt_of_a_dead_runner_is_failed_once(log):
    attempt = start(log, day(1))
    with log.begin() as conn:
        attempts.abandon(conn, attempt.job_id, ME, "its runner died")
    assert table_log(log).open[0].error == "its runner died"
    with pytest.raises(AttemptLostError), log.begin() as conn:
        attempts.abandon(conn, attempt.job_id, ME, "its runner died")


def test_a_long_error_is_cut_with_a_note(log):
    fail(log, day(1), error="x" * 20_000)
    (row,) = rows(log, "SELECT error FROM step_log")
    assert len(row["error"]) == 5000
    assert row["error"].endswith("(cut)")


def test_skipped_windows_are_rows_and_can_run_later(log):
    with log.begin() as conn:
        attempts.skip(conn, [request(day(1)), request(day(2))])
        attempts.skip(conn, [request(day(1))])
    assert table_log(log).skipped == (days(1, 3),)
    succeed(log, day(1))
    assert (table_log(log).finished, table_log(log).skipped) == ((day(1),), (day(2),))


def test_finished_windows_are_read_as_few_ranges(log):
    for window in (day(1), day(2), day(3), day(5), day(8), day(9)):
        succeed(log, window)
    fail(log, day(4))
    assert table_log(log).finished == (days(1, 4), day(5), days(8, 10))
    assert [(item.window, item.error) for item in table_log(log).open] == [(day(4), "broken")]


def test_windows_of_a_changed_period_join(log):
    succeed(log, day(1))
    for hour in range(24):
        succeed(log, hours(hour, hour + 1, of_day=2))
    assert table_log(log).finished == (days(1, 3),)


def test_an_operator_makes_a_window_pending_by_an_update(log):
    for n in (1, 2, 3):
        succeed(log, day(n))
    execute(log, "UPDATE job_log SET status='FAILURE' WHERE data_range_start='20220102000000'")
    assert table_log(log).finished == (day(1), day(3))
    assert start(log, day(2)).attempt_number == 2


def test_a_running_window_shows_its_owner(log):
    start(log, day(1))
    (item,) = table_log(log).open
    assert (item.status, item.owner) == (Status.RUNNING, ME)


def test_the_newest_successes_are_known_for_lookback(log):
    for n in range(1, 7):
        succeed(log, day(n), now=f"2022-01-0{n + 1}")
    settled = table_log(log, table(lookback=2)).settled
    assert [(item.window, item.now) for item in settled] == [
        (day(n), at(f"2022-01-0{n + 1}")) for n in (4, 5, 6)
    ]


def test_a_window_over_a_refreshed_upstream_is_stale_until_it_runs_again(log):
    tables = table("a"), table("b", depends_on=["a"])
    for n in (1, 2):
        succeed(log, day(n), name="a")
        succeed(log, day(n), name="b")
    assert table_log(log, *tables)["b"].stale == ()
    succeed(log, day(1), name="a", trigger=Trigger.REFRESH)
    assert table_log(log, *tables)["b"].stale == (day(1),)
    succeed(log, day(1), name="b", trigger=Trigger.UPSTREAM)
    assert table_log(log, *tables)["b"].stale == ()


def test_the_latest_run_of_a_table_is_one_row_even_within_one_second_k16(log):
    for n in (1, 2, 3):
        succeed(log, day(n))
    execute(log, "UPDATE job_log SET job_start_time = '2022-01-01 00:00:00'")
    (row,) = rows(log, "SELECT * FROM v_table_log")
    assert (row["job_id"], row["status"], int(row["row_count"])) == (3, "SUCCESS", 5)
    with log.read() as conn:
        assert history.latest_statuses(conn) == {"ods.t": "SUCCESS"}


def test_arguments_of_a_run_are_recorded_s42(log):
    with log.begin() as conn:
        attempts.claim(conn, replace(request(day(1)), runtime_args={"k": "v"}))
    with log.read() as conn:
        assert history.attempts(conn)[0]["runtime_args"] == {"k": "v"}


def test_the_log_of_one_table_is_newest_first_and_bounded(log):
    for n in range(1, 6):
        succeed(log, day(n))
    succeed(log, day(1), name="other")
    with log.read() as conn:
        found = history.attempts(conn, "ods.t", limit=2)
    assert [row["data_range_start"] for row in found] == ["20220105000000", "20220104000000"]


def test_ids_never_come_again(log):
    succeed(log, day(1))
    with log.begin() as conn:
        conn.execute(step_log.delete())
        conn.execute(job_log.delete())
    assert start(log, day(1)).job_id == 2


def race(url: str, runner: int, windows: int) -> list[int]:
    """Claim and finish every window that nobody else holds; the ones that were ours."""
    log, won = RunLog.open(make_url(url)), []
    for n in range(windows):
        try:
            window = TimeWindow(
                day(1).start.replace(year=2000 + n), day(2).start.replace(year=2000 + n)
            )
            succeed(log, window, owner=Owner("race", runner, runner))
            won.append(n)
        except (AlreadyRunningError, AlreadyDoneError):
            continue
    return won


def test_each_window_is_won_by_one_of_several_processes(database_url):
    """Opening the fresh log is part of the race."""
    url = database_url.render_as_string(hide_password=False)
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(4, mp_context=context) as pool:
        won = list(pool.map(race, [url] * 4, range(4), [40] * 4))
    assert sorted(n for each in won for n in each) == list(range(40))
    found = rows(
        RunLog.open(database_url), "SELECT status, count(*) AS n FROM job_log GROUP BY status"
    )
    assert found == [{"status": "SUCCESS", "n": 40}]
