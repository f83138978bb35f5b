"""What is broken in one place is one error, and costs no window of the tables that need it."""

import shutil
import subprocess
import sys

import pytest
from sqlalchemy import create_engine

from logdriven_dagster.config import load_project
from logdriven_dagster.errors import (
    DiskFullError,
    UnknownHostError,
    UnmetNeedError,
    UsageError,
)
from logdriven_dagster.execution.events import NeedUnmet, WindowFailed, WindowStarted
from logdriven_dagster.execution.opening import open_runner
from tests.builders import day, run_window
from tests.execution.conftest import NOW, NUMBERS
from tests.patience import PATIENCE

PROJECT = "project: world\nconnections:\n  shop: {url: '%s'}\n"
SECRET_URL = "postgresql://etl:${env:NEEDS_TEST_PASSWORD}@127.0.0.1/shop"
NOBODY = "postgresql://etl@127.0.0.1:9/shop"
"""Where nobody listens."""
SHOP = """
    table: {name}
    period: 1 day
    default_start: 2022-01-01
    ordered: {ordered}
    steps:
      - step: load
        source: {{type: jdbc, connection: shop, table: t}}
        target: {{type: iceberg}}
"""
PYTHON = """
    table: ods.python
    period: 1 day
    default_start: 2022-01-01
    ordered: false
    steps:
      - {step: clean, python: "clean.py:run", target: {type: iceberg}}
"""


@pytest.fixture
def shop(world):
    """Four tables of one connection beside `ods.numbers`, which needs none."""
    for number in range(4):
        text = SHOP.format(name=f"shop.t{number}", ordered="false" if number else "true")
        world.write(f"tables/t{number}.yaml", text)
    (world.root / "tables/sums.yaml").unlink()
    return world


def unmet(events):
    return [(event.tables, str(event.reason)) for event in events if isinstance(event, NeedUnmet)]


ALL = ("shop.t0", "shop.t1", "shop.t2", "shop.t3")


@pytest.mark.parametrize(
    ("url", "told"),
    [
        (SECRET_URL, "connection shop: the environment variable NEEDS_TEST_PASSWORD is not set"),
        (NOBODY, "connection shop: could not open its database: connection failed: "),
        ("mssql+nodriver://h/d", "connection shop: its JDBC driver is unknown"),
    ],
    ids=["variable", "unreachable", "driver"],
)
def test_a_connection_that_is_broken_is_one_error_and_no_failed_window(shop, url, told):
    shop.write("logdriven.yaml", PROJECT % url)
    [(tables, error)] = unmet(shop.catch_up())
    assert tables == ALL
    assert error.startswith(told)
    assert shop.statuses("ods.numbers") == [(f"0{n}", "SUCCESS") for n in range(1, 5)]
    assert {row["job_name"] for row in shop.log()} == {"ods.numbers"}


def test_a_database_that_cannot_be_opened_is_reported_in_one_line_with_what_to_check(shop):
    shop.write("logdriven.yaml", PROJECT % NOBODY)
    [(_, error)] = unmet(shop.catch_up())
    assert error.endswith(
        "; check connections.shop in logdriven.yaml, and that the server is running"
    )
    assert "\n" not in error


def test_an_audit_needs_what_the_windows_need(shop):
    shop.write("logdriven.yaml", PROJECT % NOBODY)
    with pytest.raises(UnmetNeedError, match="connection shop: could not open its database"):
        shop.runner.audit("shop.t1", NOW)


def test_a_window_that_is_asked_for_is_refused_before_it_is_claimed(shop):
    shop.write("logdriven.yaml", PROJECT % NOBODY)
    with pytest.raises(UnmetNeedError, match="connection shop"):
        list(run_window(shop.runner, "shop.t1", day(1), NOW))
    assert shop.log() == []


def test_a_database_that_goes_away_fails_the_window_in_work_and_no_other_table(
    spark, shop, postgres_url
):
    shop.write("logdriven.yaml", PROJECT % postgres_url.render_as_string(hide_password=False))
    events = []
    for event in shop.runner.catch_up(NOW, ALL):
        events.append(event)
        if isinstance(event, WindowStarted):
            with create_engine(postgres_url.set(database="postgres")).begin() as conn:
                closed = f"ALTER DATABASE {postgres_url.database} ALLOW_CONNECTIONS false"
                conn.exec_driver_sql(closed)
    [failed] = [event for event in events if isinstance(event, WindowFailed)]
    [(tables, error)] = unmet(events)
    assert failed.attempt.table == "shop.t0"
    assert tables == ALL[1:]
    assert "not currently accepting connections" in error


@pytest.mark.parametrize(
    ("error", "told", "tables"),
    [
        (
            DiskFullError("cannot write /w\n\nOSError: and so on"),
            "disk: cannot write /w; free space on the disk of the warehouse",
            ("ods.numbers", "dws.sums"),
        ),
        (
            UnknownHostError("nn1: Name or service not known"),
            "network: nn1: Name or service not known; check the host name",
            ("ods.numbers",),
        ),
    ],
)
def test_what_the_machine_lacks_during_a_window_is_one_error_and_no_failure(
    world, error, told, tables
):
    world.engine.fail("ods.numbers", error=error)
    events = list(world.catch_up())
    [(stopped, text)] = unmet(events)
    assert stopped == tables
    assert text.startswith(told)
    assert not [event for event in events if isinstance(event, WindowFailed)]
    assert {row["status"] for row in world.log("ods.numbers")} == {"DISCARDED"}
    assert not unmet(world.catch_up())
    assert world.statuses("ods.numbers")[-1] == ("04", "SUCCESS")


def test_retries_come_before_what_the_machine_lacks_is_reported(world):
    world.write("tables/numbers.yaml", NUMBERS + "    retries: 1\n    retry_interval: 1 second\n")
    world.engine.fail("ods.numbers", error=DiskFullError("no space"), times=1)
    assert not unmet(world.catch_up())


@pytest.mark.parametrize(
    ("warehouse", "told"),
    [
        ("logdriven.yaml", "/logdriven.yaml is not a folder; set `warehouse` to another one"),
        ("full", "no space is left in "),
    ],
)
def test_a_warehouse_without_room_is_one_error_before_any_claim(
    world, monkeypatch, warehouse, told
):
    world.write("logdriven.yaml", f"project: world\nwarehouse: {warehouse}\n")
    if warehouse == "full":
        usage = type(shutil.disk_usage("/"))(1 << 30, 1 << 30, 0)
        monkeypatch.setattr(shutil, "disk_usage", lambda _folder: usage)
    [(tables, error)] = unmet(world.catch_up())
    assert tables == ("ods.numbers", "dws.sums")
    assert error.startswith("disk: ")
    assert told in error
    assert world.log() == []


def test_a_python_file_that_cannot_be_read_is_one_error_with_its_line(world):
    world.write("tables/python.yaml", PYTHON)
    world.write("tables/clean.py", "def run(spark):\n    return spark.range(")
    [(tables, error)] = unmet(world.catch_up())
    assert tables == ("ods.python",)
    assert error.endswith("clean.py:2: '(' was never closed")
    assert world.log("ods.python") == []
    assert ("04", "SUCCESS") in world.statuses("dws.sums")


def test_a_variable_of_the_project_that_is_missing_concerns_only_who_names_it(world):
    world.write("logdriven.yaml", "project: world\nvariables: {region: '${env:NEEDS_TEST_REGION}'}")
    named = NUMBERS.replace("ods.numbers", "ods.region").replace("WHERE", "WHERE :region = 'x' AND")
    world.write("tables/region.yaml", named)
    [(tables, error)] = unmet(world.catch_up())
    assert tables == ("ods.region",)
    assert "NEEDS_TEST_REGION is not set" in error
    assert ("04", "SUCCESS") in world.statuses("ods.numbers")


def test_settings_of_spark_that_lack_something_are_one_error_for_all_tables(world):
    lacking = "project: world\nspark: {config: {spark.x.password: '${env:NEEDS_TEST_SPARK}'}}"
    world.write("logdriven.yaml", lacking)
    [(tables, error)] = unmet(world.catch_up())
    assert tables == ("ods.numbers", "dws.sums")
    assert error.startswith("Spark: spark.config: spark.x.password: the environment variable NEEDS")
    assert world.log() == []


def test_a_spark_that_does_not_start_is_one_error_and_no_failed_window(spark, world):
    def broken():
        raise UsageError("no Java")

    runner = open_runner(load_project(world.root), spark=broken)
    events = list(runner.catch_up(NOW))
    [(_, error)] = unmet(events)
    assert error == "Spark: no Java"
    assert not [event for event in events if isinstance(event, WindowStarted)]
    assert world.log() == []


@pytest.mark.usefixtures("long")
@pytest.mark.skipif(not shutil.which("unshare"), reason="needs unshare")
def test_spark_starts_on_a_machine_whose_own_name_means_nothing(spark, tmp_path):
    script = f"""
        hostname no-such-host.invalid || exit 77
        {sys.executable} -m logdriven_dagster.cli init shop --now 2022-01-04 && cd shop &&
        {sys.executable} -m logdriven_dagster.cli run ods.orders --now 2022-01-04 --once"""
    done = subprocess.run(
        ["unshare", "--uts", "sh", "-c", script],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    if done.returncode == 77 or "Operation not permitted" in done.stderr:
        pytest.skip("only root may name a machine")
    assert done.returncode == 0, done.stderr
    assert "SUCCESS  ods.orders" in done.stdout
