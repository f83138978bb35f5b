"""Going on where another system stopped: its log says what is done, ours remembers it."""

import json
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml

from logdriven_dagster.config import load_project
from logdriven_dagster.execution.opening import open_runner
from logdriven_dagster.runlog.archive import archive
from logdriven_dagster.runlog.history import logs as history
from tests.builders import at
from tests.plugins.importers.conftest import NOW, Folder
from tests.plugins.importers.kettle.world import Kettle

pytestmark = pytest.mark.sampled("database_url")

ROOT = Path(__file__).resolve().parents[3]
JOB_LOG = """
    CREATE TABLE job_log (
        job_id INT NOT NULL, job_name VARCHAR(128) NOT NULL, job_period INT NOT NULL,
        job_schedule_id VARCHAR(128) NOT NULL, data_range_start VARCHAR(1024),
        data_range_end VARCHAR(1024), job_start_time TIMESTAMP NULL, status VARCHAR(32) NOT NULL)
"""
WORKFLOW = """
    -- workflow=orders
    --  period=1440
    --  loadType=incremental
    --  logDrivenType={kind}
    --  defaultStart={start}

    -- step=1
    -- source=mysql
    --  dbName=shop
    --  tableName=orders
    --  {more}
    -- target=hive
    --  dbName=ods
    --  tableName=orders
    -- writeMode=append
    {sql}
"""


class SharpEtl:
    """A workflow of Sharp ETL, and its log in the database `shop`."""

    def __init__(self, folder: Folder, command: Callable[..., Any]) -> None:
        self.folder, self._command, self._count = folder, command, 0
        folder.execute(JOB_LOG)
        self.workflow()

    def workflow(self, kind: str = "timewindow", start: str = "20220101", **more: str) -> None:
        fields = {"more": "transaction=false", "sql": "SELECT 1 AS one;", **more}
        self.folder.write("w/orders.sql", WORKFLOW.format(kind=kind, start=start, **fields))

    def ran(self, start: str, end: str, status: str = "SUCCESS", name: str = "orders") -> None:
        self._count += 1
        row = (self._count, name, 1440, f"{name}-{start}", start, end, "2022-01-06 01:00:00")
        texts = ", ".join(repr(value) for value in (*row, status))
        self.folder.execute(f"INSERT INTO job_log VALUES ({texts})")

    def brought(self, *options: str, code: int = 0, log: str = "shop") -> Any:
        options = ("--job-log", log, "--json", *options)
        result = self._command("import-sharpetl", self.folder.root / "w", *options)
        assert result.code == code, result.out + result.err
        return result.json if code < 2 else result.err


@pytest.fixture
def sharp_etl(server_folder: Folder, command: Callable[..., Any]) -> SharpEtl:
    return SharpEtl(server_folder, command)


@pytest.fixture
def on_sqlite(folder: Folder, command: Callable[..., Any]) -> SharpEtl:
    return SharpEtl(folder, command)


def pending(folder: Folder, table: str = "orders", now: Any = NOW) -> list[str]:
    """The windows that the next plan has."""
    plan = open_runner(load_project(folder.root)).plan(now)
    return [str(window.window) for window in plan.windows() if window.table == table]


def log_of(folder: Folder) -> list[dict[str, Any]]:
    with open_runner(load_project(folder.root)).run_log.read() as conn:
        return history.list_attempts(conn)


def test_the_next_plan_begins_where_sharp_etl_stopped(sharp_etl: SharpEtl):
    sharp_etl.ran("20220101000000", "20220102000000")
    sharp_etl.ran("20220102000000", "20220108000000")
    told = sharp_etl.brought()
    assert [each["goes_on"] for each in told["taken_over"]] == ["2022-01-08 00:00:00+00:00"]
    assert pending(sharp_etl.folder) == ["[2022-01-08, 2022-01-09)", "[2022-01-09, 2022-01-10)"]


def test_an_imported_range_is_one_row_without_counts_marked_as_imported(on_sqlite: SharpEtl):
    on_sqlite.ran("20220101000000", "20220108000000")
    on_sqlite.brought()
    (row,) = log_of(on_sqlite.folder)
    (step,) = row["steps"]
    assert (row["status"], row["run_trigger"]) == ("SUCCESS", "takeover")
    assert (row["data_range_start"], row["data_range_end"]) == ("20220101000000", "20220108000000")
    assert step["output"] == "finished before, according to job_log of Sharp ETL, job_name orders"
    assert {step[name] for name in step if name.endswith("_count")} == {None}


def test_taking_over_again_adds_what_the_old_system_has_done_since(sharp_etl: SharpEtl):
    sharp_etl.ran("20220101000000", "20220107000000")
    sharp_etl.brought()
    sharp_etl.brought()
    assert len(log_of(sharp_etl.folder)) == 1
    sharp_etl.ran("20220107000000", "20220109000000")
    sharp_etl.brought()
    assert pending(sharp_etl.folder) == ["[2022-01-09, 2022-01-10)"]


def test_a_window_that_failed_there_and_was_passed_runs_here_first_s06(sharp_etl: SharpEtl):
    sharp_etl.ran("20220101000000", "20220103000000")
    sharp_etl.ran("20220103000000", "20220104000000", "FAILURE")
    sharp_etl.ran("20220104000000", "20220109000000")
    told = sharp_etl.brought()
    assert "never succeeded: it runs here" in told["notes"][-1]["reason"]
    assert pending(sharp_etl.folder) == ["[2022-01-03, 2022-01-04)", "[2022-01-09, 2022-01-10)"]


def test_one_that_failed_there_and_was_repeated_is_done(on_sqlite: SharpEtl):
    on_sqlite.ran("20220101000000", "20220103000000", "FAILURE")
    on_sqlite.ran("20220101000000", "20220109000000")
    on_sqlite.brought()
    assert pending(on_sqlite.folder) == ["[2022-01-09, 2022-01-10)"]


def test_a_success_within_a_window_lets_the_window_run_as_a_whole(on_sqlite: SharpEtl):
    on_sqlite.ran("20220101000000", "20220108120000")
    told = on_sqlite.brought()
    assert "stopped within the window that begins at 2022-01-08" in told["notes"][-1]["reason"]
    assert pending(on_sqlite.folder)[0] == "[2022-01-08, 2022-01-09)"


def test_keys_go_on_behind_the_greatest_one(sharp_etl: SharpEtl):
    sharp_etl.workflow("auto_inc_id", "0", more="partitionColumn=id", sql="")
    sharp_etl.ran("0", "812")
    sharp_etl.brought()
    assert pending(sharp_etl.folder) == ["(812, …]"]
    sharp_etl.ran("812", "900")
    sharp_etl.brought()
    assert pending(sharp_etl.folder) == ["(900, …]"]


def test_what_was_taken_over_outlives_the_archive(on_sqlite: SharpEtl):
    on_sqlite.ran("20220101000000", "20220108000000")
    on_sqlite.brought()
    runner = open_runner(load_project(on_sqlite.folder.root))
    with runner.run_log.begin() as conn:
        assert archive(conn, runner.project.tables.values(), timedelta(0)) == 1
    assert pending(on_sqlite.folder)[0] == "[2022-01-08, 2022-01-09)"
    on_sqlite.brought()
    assert log_of(on_sqlite.folder) == []


def test_a_table_that_has_run_here_keeps_its_log(on_sqlite: SharpEtl):
    on_sqlite.ran("20220101000000", "20220108000000")
    on_sqlite.brought()
    with open_runner(load_project(on_sqlite.folder.root)).run_log.begin() as conn:
        conn.exec_driver_sql("UPDATE job_log SET run_trigger = 'pending'")
    on_sqlite.ran("20220108000000", "20220109000000")
    told = on_sqlite.brought(code=1)
    assert "it has already run here" in told["untranslated"][0]["reason"]
    assert pending(on_sqlite.folder)[0] == "[2022-01-08, 2022-01-09)"


def test_a_log_that_cannot_be_read_changes_nothing(on_sqlite: SharpEtl):
    on_sqlite.ran("soon", "later")
    told = on_sqlite.brought(code=1)
    assert "'soon' is not a date or time" in told["untranslated"][0]["reason"]
    assert log_of(on_sqlite.folder) == []


def test_secrets_of_the_url_come_from_the_environment_and_never_leave(
    on_sqlite: SharpEtl, monkeypatch: pytest.MonkeyPatch
):
    told = on_sqlite.brought(code=2, log="mysql+pymysql://me:planted-horse@127.0.0.1:1/shop")
    assert "the password must not be in plain text" in told
    assert "planted" not in told
    monkeypatch.setenv("OLD_PASSWORD", "planted-horse")
    url = "mysql+pymysql://me:${env:OLD_PASSWORD}@127.0.0.1:1/shop"
    told = on_sqlite.brought(code=2, log=url)
    assert "does not answer" in told
    assert "planted" not in told


def test_our_own_log_is_not_taken_for_theirs(on_sqlite: SharpEtl):
    on_sqlite.ran("20220101000000", "20220108000000")
    on_sqlite.brought()
    ours = load_project(on_sqlite.folder.root).run_log_url.render_as_string(hide_password=False)
    assert "is a run log of logdriven" in on_sqlite.brought("--overwrite", code=2, log=ours)


@pytest.mark.sampled
def test_a_table_that_kettle_completed_today_does_not_run_again_today_k08(
    server_folder: Folder, command: Callable[..., Any]
):
    server_folder.configure(run_log=server_folder.url_text)
    kettle = Kettle(server_folder)
    kettle.job("nightly")
    server_folder.execute(
        "CREATE TABLE t_etl_tbl_log (log_id INT, kjb_name VARCHAR(255), ktr_name VARCHAR(255), "
        "tbl_name VARCHAR(255), begin_dttm TIMESTAMP NULL, end_dttm TIMESTAMP NULL, "
        "status VARCHAR(10), row_count INT, error_count INT)"
    )
    for name, day, status in (
        ("orders", 10, "Completed"),
        ("customers", 9, "Completed"),
        ("sums", 10, "Failed"),
    ):
        kettle.table("nightly", name)
        kettle.copies(f"ktr_{name}", "SELECT 1 AS one", name)
        begun, ended = (f"2022-01-{day:02} 0{hour}:00:00" for hour in (3, 4))
        server_folder.execute(
            f"INSERT INTO t_etl_tbl_log VALUES (1, 'nightly', 'k', '{name}', '{begun}', "
            f"'{ended}', '{status}', 1, 0)"
        )
    sqlite = server_folder.url.get_backend_name() == "sqlite"
    known = ("--map", "KettleShop=shop") if sqlite else ()
    arguments = ("--connection", "shop", "--repository", kettle.repository, *known)
    result = command("import-kettle", *arguments, "--take-over", "--json")
    assert result.code == 0, result.out + result.err
    told = json.loads(result.out)
    assert [each["table"] for each in told["taken_over"]] == ["kettle.orders"]
    assert pending(server_folder, "kettle.orders") == []
    assert pending(server_folder, "kettle.orders", now=at("2022-01-11 12:00"))
    assert pending(server_folder, "kettle.customers")
    assert pending(server_folder, "kettle.sums")


def test_a_log_is_found_by_its_url_if_a_run_log_of_ours_exists(
    postgres_folder: Folder, command: Callable[..., Any]
):
    """Sharp ETL's own schema on PostgreSQL, where ours is in the default one."""
    postgres_folder.configure(run_log=postgres_folder.url_text)
    old = SharpEtl(postgres_folder, command)
    old.ran("20220101000000", "20220108000000")
    postgres_folder.execute("CREATE SCHEMA sharp_etl", "ALTER TABLE job_log SET SCHEMA sharp_etl")
    for _ in range(2):
        old.brought(log=postgres_folder.url_text)
        assert pending(postgres_folder)[0] == "[2022-01-08, 2022-01-09)"
    assert len(log_of(postgres_folder)) == 1


DOCUMENTED = {
    "sqlite": ("-- SQLite", "UTC"),
    "postgresql": ("-- PostgreSQL", "Europe/Berlin"),
    "mysql": ("-- MariaDB, MySQL", "Europe/Berlin"),
}
"""The heading of a block of importers.md, and the zone of the project that it speaks of."""


def test_the_documented_sql_takes_over_from_any_other_system(server_folder: Folder):
    heading, zone = DOCUMENTED[server_folder.url.get_backend_name()]
    server_folder.configure(project="shop", timezone=zone, run_log=server_folder.url_text)
    step = {"step": "load", "sql": "SELECT 1 AS one", "target": {"type": "iceberg"}}
    table = {"table": "ods.orders", "period": "1 day", "default_start": "2022-01-01"}
    server_folder.write("tables/orders.yaml", yaml.safe_dump({**table, "steps": [step]}))
    assert pending(server_folder, "ods.orders")[0] == "[2022-01-01, 2022-01-02)"
    text = (ROOT / "docs/plugins/importers.md").read_text().split(f"{heading}\n")[1].split("```")[0]
    with open_runner(load_project(server_folder.root)).run_log.begin() as conn:
        for statement in filter(str.strip, text.split(";")):
            conn.exec_driver_sql(statement)
    assert pending(server_folder, "ods.orders")[0] == "[2022-01-08, 2022-01-09)"
