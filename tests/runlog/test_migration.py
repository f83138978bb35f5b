"""A log of version 0.1 (schema 0001) is migrated with its rows, on three databases."""

import pytest
from sqlalchemy import create_engine, inspect, text

from logdriven_dagster.errors import AlreadyRunningError, RunLogError
from logdriven_dagster.model.attempts import Status
from logdriven_dagster.runlog import RunLog
from logdriven_dagster.runlog.schema import metadata
from logdriven_dagster.runlog.views import VIEWS
from tests.builders import day, days
from tests.runlog.logbook import execute, expire, rows, start, table_log

TIMES = {"sqlite": "DATETIME", "postgresql": "TIMESTAMP", "mysql": "DATETIME(6)"}
KEYS = {
    "sqlite": "INTEGER PRIMARY KEY AUTOINCREMENT",
    "postgresql": "BIGSERIAL PRIMARY KEY",
    "mysql": "BIGINT PRIMARY KEY AUTO_INCREMENT",
}
OLD = """
CREATE TABLE job_log (job_id {key}, job_name VARCHAR(128) NOT NULL, job_period INTEGER NOT NULL,
 job_schedule_id VARCHAR(128) NOT NULL,
 data_range_start VARCHAR(1024), data_range_end VARCHAR(1024),
 job_start_time {time}, job_end_time {time}, status VARCHAR(32) NOT NULL,
 create_time {time} DEFAULT CURRENT_TIMESTAMP NOT NULL,
 last_update_time {time} DEFAULT CURRENT_TIMESTAMP NOT NULL, incremental_type VARCHAR(16),
 current_file VARCHAR(1024), application_id VARCHAR(64), project_name VARCHAR(256),
 run_trigger VARCHAR(16), attempt_number INTEGER DEFAULT '1' NOT NULL,
 error_count INTEGER DEFAULT '0' NOT NULL, owner VARCHAR(256), dagster_run_id VARCHAR(64),
 runtime_args TEXT, data_now BIGINT, window_start BIGINT, window_end BIGINT, latest SMALLINT);
CREATE UNIQUE INDEX uq_job_log_latest ON job_log (job_schedule_id, latest);
CREATE TABLE step_log (job_id BIGINT NOT NULL REFERENCES job_log (job_id),
 step_id VARCHAR(64) NOT NULL, status VARCHAR(32) NOT NULL, start_time {time} NOT NULL,
 end_time {time} NOT NULL, duration INTEGER NOT NULL, output TEXT NOT NULL, source_count BIGINT,
 target_count BIGINT, success_count BIGINT, failure_count BIGINT, error VARCHAR(10000),
 source_type VARCHAR(256), target_type VARCHAR(256), PRIMARY KEY (job_id, step_id));
CREATE VIEW v_window_log AS SELECT * FROM job_log WHERE latest = 1;
CREATE TABLE logdriven_version (version_num VARCHAR(32) NOT NULL PRIMARY KEY);
INSERT INTO logdriven_version VALUES ('0001')
"""
STATUSES = {1: "SUCCESS", 2: "SUCCESS", 3: "SKIPPED", 4: "FAILURE", 5: "RUNNING"}


@pytest.fixture
def old_log(database_url):
    """A log of the old schema with a window of each status."""
    engine = create_engine(database_url)
    kind = engine.dialect.name.replace("mariadb", "mysql")
    with engine.begin() as conn:
        for statement in OLD.format(key=KEYS[kind], time=TIMES[kind]).split(";\n"):
            conn.execute(text(statement))
        for n, status in STATUSES.items():
            window = {
                "id": f"ods.t-{day(n).start:%Y%m%d%H%M%S}",
                "status": status,
                "start": int(day(n).start.timestamp()),
                "end": int(day(n).end.timestamp()),
            }
            conn.execute(text(INSERT), window)
            conn.execute(text(STEP), {"n": n, "status": status})
    engine.dispose()
    return database_url


INSERT = """INSERT INTO job_log (job_name, job_period, job_schedule_id, status, window_start,
 window_end, latest, owner) VALUES ('ods.t', 1440, :id, :status, :start, :end, 1, 'h:1:2')"""
STEP = """INSERT INTO step_log (job_id, step_id, status, start_time, end_time, duration, output)
 VALUES (:n, 'load', :status, '2022-01-01', '2022-01-01', 0, '')"""


@pytest.fixture
def migrated(old_log):
    log = RunLog.open(old_log)
    yield log
    log.engine.dispose()


def test_an_old_log_has_the_schema_of_a_new_one(migrated):
    inspector = inspect(migrated.engine)
    for expected in metadata.tables.values():
        found = {column["name"] for column in inspector.get_columns(expected.name)}
        assert found == {column.name for column in expected.columns}
    assert set(VIEWS) <= set(inspector.get_view_names())
    assert len(rows(migrated, "SELECT * FROM step_log")) == len(STATUSES)


def test_its_windows_mean_what_they_meant(migrated):
    log = table_log(migrated)
    assert (log.finished, log.skipped) == ((days(1, 3),), (day(3),))
    assert [(i.window, i.status) for i in log.open] == [
        (day(4), Status.FAILURE),
        (day(5), Status.RUNNING),
    ]


def test_its_running_attempt_has_one_lease_left(migrated):
    with pytest.raises(AlreadyRunningError):
        start(migrated, day(5))
    expire(migrated)
    assert start(migrated, day(5)).attempt_number == 2


def test_it_refuses_unknown_states_from_then_on(migrated):
    with pytest.raises(RunLogError):
        execute(migrated, "UPDATE job_log SET status = 'FAILED'")


def test_ids_go_on(migrated):
    assert start(migrated, day(6)).job_id == len(STATUSES) + 1
