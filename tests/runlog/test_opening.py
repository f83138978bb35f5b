"""The schema over SQLite, PostgreSQL and MariaDB, and what opening a log can run into."""

import pytest
from sqlalchemy import inspect

from logdriven_dagster.errors import (
    RunLogError,
)
from logdriven_dagster.runlog import RunLog
from logdriven_dagster.runlog.history import logs as history
from tests.builders import day
from tests.runlog.logbook import execute, rows, succeed

pytestmark = pytest.mark.usefixtures("real_upgrade")


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
        (row,) = history.list_attempts(conn)
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


def test_an_unreachable_log_is_one_clear_error_without_the_password(monkeypatch):
    monkeypatch.setattr(RunLog, "patience", 0)
    with pytest.raises(RunLogError, match="cannot use the run log") as caught:
        RunLog.open("postgresql+psycopg://me:topsecret@127.0.0.1:1/none")
    assert "topsecret" not in str(caught.value)


@pytest.mark.parametrize("url", ["mssql://h/d", "oracle://h/d", "postgresql+nothing://h/d"])
def test_a_database_that_cannot_hold_the_log_is_refused_with_any_driver(url):
    with pytest.raises(RunLogError, match="use sqlite, postgresql, mysql or mariadb"):
        RunLog.open(url)


@pytest.mark.usefixtures("long")
def test_an_error_of_the_server_is_one_line():
    with pytest.raises(RunLogError) as caught:
        RunLog.open("postgresql+psycopg://me@127.0.0.1:1/none")
    assert str(caught.value).endswith("Connection refused")


def test_a_log_that_goes_away_is_one_clear_error(log):
    with pytest.raises(RunLogError, match="cannot use the run log"):
        rows(log, "SELECT * FROM nowhere")


def test_a_malformed_url_is_one_clear_error():
    with pytest.raises(RunLogError, match="not an SQLAlchemy URL"):
        RunLog.open("no url at all")


@pytest.mark.sampled
def test_a_schema_that_was_begun_is_completed(log):
    execute(log, "DELETE FROM logdriven_version")
    execute(log, "DROP VIEW v_table_log")
    RunLog.open(log.engine.url)
    assert rows(log, "SELECT * FROM v_table_log") == []


def test_an_unknown_kind_of_database_is_refused():
    with pytest.raises(RunLogError, match="use sqlite"):
        RunLog.open("nosuch://host/db")
