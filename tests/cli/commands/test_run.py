"""`logdriven run` and `logdriven refresh`; three tests run Spark in a process."""

import json
import signal
import sqlite3
import subprocess
import time
from pathlib import Path
from subprocess import PIPE

import pytest

from logdriven_dagster.testing import NullEngine
from logdriven_dagster.testing.null_engine import null_engine
from tests.builders import day
from tests.cli.program import PROGRAM
from tests.cli.shop_log import ShopLog
from tests.clock_changes import null_table
from tests.patience import PATIENCE


@pytest.mark.usefixtures("slow")
def test_a_run_with_nothing_to_do_never_starts_spark(shop, logdriven):
    result = logdriven("run", "--now", "2022-01-01")
    assert (result.code, result.out, result.err) == (0, "Nothing to do.\n", "")
    command = "import atexit, sys; atexit.register(lambda: print('pyspark' in sys.modules)); "
    program = [PROGRAM[0], "-c", command + PROGRAM[-1], "run", "--now", "2022-01-01"]
    done = subprocess.run(program, cwd=shop, capture_output=True, text=True, check=True)
    assert done.stdout == "Nothing to do.\nFalse\n"


def test_run_json_with_nothing_to_do_is_an_empty_summary(shop, logdriven):
    summary = logdriven("run", "--json", "--now", "2022-01-01").json
    assert summary.pop("seconds") >= 0
    assert summary == {
        "done": 0,
        "failed": 0,
        "lost": 0,
        "skipped": 0,
        "refused": 0,
        "elsewhere": 0,
        "rows_read": 0,
        "rows_written": 0,
        "rows_rejected": 0,
        "windows": [],
        "unmet": [],
        "left": [],
        "made_without": [],
        "old_windows": [],
        "source_changes": [],
    }


def test_a_log_in_json_holds_nothing_but_windows(shop, logdriven):
    result = logdriven("run", "--log-format", "json", "--now", "2022-01-01")
    assert (result.code, result.out, result.err) == (0, "", "")
    assert logdriven("run", "--log-format", "json", "--json").code == 2


def test_a_run_without_ready_windows_reports_the_reason(shop, logdriven):
    ShopLog(shop).start("ods.orders", day(1))
    run = ("run", "ods.orders", "dws.daily_sales", "--now", "2022-01-04")
    result = logdriven(*run)
    first, running, waiting = result.out.splitlines()
    assert (result.code, first) == (0, "Nothing to do now:")
    assert running.startswith("  ods.orders [2022-01-01, 2022-01-02) running in job 1 by")
    assert waiting.startswith("  dws.daily_sales [2022-01-01, 2022-01-02) waits for ods.orders")
    assert [item["state"] for item in logdriven(*run, "--json").json["left"]] == [
        "running",
        "blocked",
    ]


def test_a_run_ends_with_the_tables_that_are_blocked_and_the_reasons(null_project, logdriven):
    for n in range(11):
        table = null_table(f"t.b{n:02}", "1 day", "2022-01-01", "t.a")
        (null_project / f"tables/b{n:02}.yaml").write_text(table)
    (null_project / "tables/a.yaml").write_text(null_table("t.a", "1 day", "2022-01-01"))
    engine = NullEngine()
    engine.fail("t.a", times=2)
    with null_engine(engine):
        text = logdriven("run", "--now", "2022-01-02")
        left = logdriven("run", "--now", "2022-01-02", "--json").json["left"]
    ended = text.out.splitlines()
    begin = ended.index("Blocked:")
    window = "[2022-01-01, 2022-01-02)"
    assert ended[begin + 1] == f"  t.b00 {window} waits for t.a {window}: FAILURE in job 1"
    assert ended[begin + 11 :] == ["  and 1 more table; `logdriven plan` shows all of them"]
    assert [each["state"] for each in left] == ["ready", *["blocked"] * 11]


def test_wait_takes_a_duration(shop, logdriven):
    assert "--wait" in logdriven("run", "--wait", "soon").err


def test_a_refresh_of_a_running_window_is_refused(shop, logdriven):
    ShopLog(shop).start("ods.orders", day(1))
    span = ("--from", "2022-01-01", "--to", "2022-01-02", "--now", "2022-01-04")
    result = logdriven("refresh", "ods.orders", *span)
    assert result.code == 1
    assert "running" in result.err


def test_a_refresh_of_a_window_whose_turn_has_not_come_names_the_command_to_run(shop, logdriven):
    span = ("--from", "2022-01-03", "--to", "2022-01-04", "--now", "2022-01-04")
    result = logdriven("refresh", "ods.orders", *span)
    assert result.code == 1
    assert (
        "run [2022-01-01, 2022-01-02) first, or catch up in order with `logdriven run ods.orders`"
        in result.err
    )


def test_a_failed_window_holds_its_table_and_the_exit_code_is_1(spark, shop):
    csv = shop / "data/orders.csv"
    csv.write_text(csv.read_text() + "99,1,2022-01-02 10:00:00,-5.00\n")
    noisy = shop / "tables/ods/noisy.py"
    noisy.write_text("def printing(source):\n    print('not JSON')\n    return source\n")
    customers = shop / "tables/ods/customers.yaml"
    python = "    python: noisy.py:printing\n    target"
    customers.write_text(customers.read_text().replace("    target", python))

    ended = _logdriven(shop, "run", "--now", "2022-01-04", "--override", "region=eu", "--json")

    summary = json.loads(ended.stdout)
    windows = [(w["table"], w["data_range_start"][8:10], w["status"]) for w in summary["windows"]]
    assert ended.returncode == 1
    assert windows == [
        ("ods.orders", "01", "SUCCESS"),
        ("ods.orders", "02", "FAILURE"),
        ("ods.customers", "01", "SKIPPED"),
        ("ods.customers", "02", "SKIPPED"),
        ("ods.customers", "03", "SUCCESS"),
        ("dws.daily_sales", "01", "SUCCESS"),
        ("ods.orders", "03", "SKIPPED"),
    ]
    failed = summary["windows"][1]
    assert "amounts_are_positive" in failed["reason"]
    assert (summary["done"], summary["failed"], summary["skipped"]) == (3, 1, 3)
    assert summary["windows"][0]["rows_written"] == 24
    assert "not JSON" in ended.stderr
    rows = json.loads(_logdriven(shop, "log", "--json").stdout)
    assert {json.dumps(row["runtime_args"]) for row in rows} == {'{"region": "eu"}'}


@pytest.mark.usefixtures("long")
def test_sigterm_discards_the_window_and_leaves_with_143(spark_processes, shop):
    query = "SELECT java_method('java.lang.Thread', 'sleep', 60000L) AS slept FROM range(2)"
    steps = f'steps:\n  - {{step: wait, sql: "{query}", target: {{type: parquet}}}}\n'
    (shop / "tables/slow.yaml").write_text("table: slow\n" + steps)
    command = [*PROGRAM, "run", "slow", "--now", "2022-01-02", "--log-format", "json"]
    with subprocess.Popen(command, cwd=shop, stdout=PIPE, stderr=PIPE, text=True) as run:
        _wait_for_a_running_step(shop)
        time.sleep(12)  # into the Spark job
        run.send_signal(signal.SIGTERM)
        out, err = run.communicate(timeout=PATIENCE)
    assert run.returncode == 143
    assert "interrupted; slow [2022-01-01, 2022-01-02) is logged as DISCARDED" in err
    assert "Traceback" not in err
    (line,) = [json.loads(text) for text in out.splitlines()]
    assert (line["table"], line["status"], line["step"]) == ("slow", "DISCARDED", "wait")
    (row,) = json.loads(_logdriven(shop, "log", "--json").stdout)
    assert (row["status"], row["steps"][0]["status"]) == ("DISCARDED", "DISCARDED")


def _logdriven(shop: Path, *arguments: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [*PROGRAM, *arguments],
        cwd=shop,
        check=False,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
    )


def _wait_for_a_running_step(shop: Path) -> None:
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        try:
            client = sqlite3.connect(f"file:{shop}/.logdriven/run_log.db?mode=ro", uri=True)
        except sqlite3.OperationalError:
            time.sleep(0.2)
            continue
        try:
            if client.execute("SELECT 1 FROM step_log").fetchone():
                return
        except sqlite3.OperationalError:
            pass
        finally:
            client.close()
        time.sleep(0.2)
    raise TimeoutError("no step was started")


@pytest.mark.usefixtures("long")
def test_validate_deep_lets_spark_analyze_the_queries_without_output_of_java(spark_processes, shop):
    query = shop / "tables/dws/daily_sales.sql"
    query.write_text(query.read_text().replace("count(*)", "cuont(*)"))
    command = [*PROGRAM, "validate", "--analyze"]
    done = subprocess.run(command, cwd=shop, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == (
        "Error: tables/dws/daily_sales.sql: unknown function cuont (line 5, column 5 of the "
        "query)\n"
    )
