"""`logdriven metrics`: what Prometheus reads of a project, and Grafana of Prometheus."""

import json
import re
import subprocess
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import generate_latest
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.parser import text_string_to_metric_families as parsed

from logdriven_dagster.config import load_project
from logdriven_dagster.execution.metrics import Metrics, _lines
from logdriven_dagster.execution.opening import open_runner
from logdriven_dagster.runlog.observed.activity import Today
from tests.builders import day
from tests.cli.program import PROGRAM
from tests.cli.shop_log import ShopLog

DASHBOARD = Path(__file__).resolve().parents[3] / "deploy/grafana/logdriven.json"
ORDERS = {"project": "shop", "table": "ods.orders"}
SWEEP = """
job: sweep
type: maintenance
steps: [{exec_order: 10, step: first, python: "steps.py:first"}]
"""


@pytest.fixture
def metric(shop: Path, logdriven) -> Any:
    """`metric(name, **labels)` is a metric's value; None if it is not there."""

    def value(metric: str, **labels: str) -> float | None:
        text = logdriven("metrics").out
        samples = {
            (sample.name, frozenset(sample.labels.items())): sample.value
            for family in parsed(text)
            for sample in family.samples
        }
        return samples.get((f"logdriven_{metric}", frozenset((ORDERS | labels).items())))

    return value


class Kept:
    """Metrics that were collected once."""

    def __init__(self, families: list[Any]) -> None:
        self.collect = lambda: families


def test_the_text_is_what_prometheus_own_library_writes(shop):
    ShopLog(shop).fail("ods.orders", day(1), "broken")
    runner = open_runner(load_project(shop))
    families = list(Metrics(runner.run_log, lambda: runner.project, Today()).collect())
    odd = GaugeMetricFamily("odd", "Values that need care", labels=["b", "a"])
    for value in (0, 1.5, 12345678, 1e-9, float("inf"), float("nan")):
        odd.add_metric(['"\\n"', "a\nb"], value)
    families.append(odd)
    assert "".join(_lines(families)) == generate_latest(Kept(families)).decode()


def test_a_tables_windows_are_counted_by_how_they_stand(shop, metric):
    log = ShopLog(shop)
    log.succeed("ods.orders", day(1))
    log.fail("ods.orders", day(2), "broken")
    log.start("ods.customers", day(1))
    assert metric("table_failed_windows") == 1
    assert metric("table_running_windows", table="ods.customers") == 1
    assert metric("table_pending_windows") > 1000
    assert metric("table_lag_seconds") > 1000 * 86_400
    assert 0 <= metric("table_oldest_failure_seconds") < 60
    assert metric("table_oldest_failure_seconds", table="ods.customers") is None


def test_the_data_clock_decides_which_windows_are_pending_late_and_fresh(shop, logdriven):
    file = shop / "tables/ods/orders.yaml"
    file.write_text(file.read_text() + "\nfreshness: {within: 2 h}\n")
    ShopLog(shop).succeed("ods.orders", day(1))
    labels = '{project="shop",table="ods.orders"}'
    for words in (["metrics", "--now", "2022-01-03"], ["--now", "20220103000000", "metrics"]):
        lines = dict(line.rsplit(" ", 1) for line in logdriven(*words).out.splitlines())
        found = {
            name: float(lines[f"logdriven_table_{name}{labels}"])
            for name in ("pending_windows", "lag_seconds", "fresh", "overdue_seconds")
        }
        assert found == {
            "pending_windows": 1,
            "lag_seconds": 86_400,
            "fresh": 1,
            "overdue_seconds": 0,
        }


def test_a_window_is_failing_since_its_first_failure_after_a_success(shop, metric):
    log = ShopLog(shop)
    for _ in range(3):
        log.fail("ods.orders", day(1), "broken")
    for job_id, hours in ((1, 30), (2, 20), (3, 10)):
        ended = f"strftime('%Y-%m-%d %H:%M:%f000', 'now', '-{hours} hours')"
        log.sql(f"UPDATE job_log SET job_end_time = {ended} WHERE job_id = {job_id}")
    assert metric("table_oldest_failure_seconds") == pytest.approx(30 * 3600, abs=60)
    log.sql("UPDATE job_log SET status = 'SUCCESS' WHERE job_id = 1")
    assert metric("table_oldest_failure_seconds") == pytest.approx(20 * 3600, abs=60)


def test_attempts_are_counted_with_their_rows_retries_and_takeovers(shop, metric):
    log = ShopLog(shop)
    log.fail("ods.orders", day(1), "broken")
    log.succeed("ods.orders", day(1))
    attempt = log.start("ods.orders", day(2))
    past = "lease_expires_at = '2000-01-01 00:00:00.000000'"
    log.sql(f"UPDATE job_log SET {past} WHERE job_id = {attempt.job_id}")
    log.succeed("ods.orders", day(2))
    assert metric("attempts_total", status="SUCCESS") == 2
    assert metric("attempts_total", status="FAILURE") == 2
    assert (metric("rows_read_total"), metric("rows_written_total")) == (48, 48)
    assert metric("lease_takeovers_total") == 1
    assert metric("retries_total") == 2
    assert 0 <= metric("attempt_seconds_total") < 60


def test_what_ended_before_midnight_is_not_counted(shop, metric):
    log = ShopLog(shop)
    log.succeed("ods.orders", day(1))
    log.sql("UPDATE job_log SET job_end_time = '2022-01-04 00:00:00.000000'")
    assert metric("attempts_total", status="SUCCESS") == 0


def test_freshness_is_reported_for_tables_that_declare_it(shop, metric):
    file = shop / "tables/ods/orders.yaml"
    file.write_text(file.read_text() + "\nfreshness: {within: 2 h}\n")
    assert metric("table_fresh") == 0
    assert metric("table_overdue_seconds") > 1000 * 86_400
    assert metric("table_fresh", table="ods.customers") is None


def test_a_job_is_measured_by_its_newest_run(shop, logdriven):
    (shop / "jobs").mkdir(exist_ok=True)
    (shop / "jobs/sweep.yaml").write_text(SWEEP)
    (shop / "jobs/steps.py").write_text("def first():\n    return 3\n")
    assert logdriven("job", "run", "sweep").code == 0
    lines = dict(line.rsplit(" ", 1) for line in logdriven("metrics").out.splitlines())
    labels = '{job_name="sweep",project="shop"}'
    assert float(lines[f"logdriven_job_last_run_success{labels}"]) == 1
    assert float(lines[f"logdriven_job_running{labels}"]) == 0
    assert 0 <= float(lines[f"logdriven_job_last_run_seconds{labels}"]) < 60


def test_errors_and_data_are_in_no_label(shop, logdriven):
    ShopLog(shop).fail("ods.orders", day(1), "password=hunter2")
    text = logdriven("metrics").out
    assert "hunter2" not in text
    labels = {name for family in parsed(text) for each in family.samples for name in each.labels}
    assert labels <= {"project", "table", "status", "job_name"}


@pytest.fixture
def served(shop: Path) -> Iterator[str]:
    """The address of an exporter."""
    command = [*PROGRAM, "metrics", "--serve", "--port", "0"]
    with subprocess.Popen(command, cwd=shop, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        yield process.stdout.readline().split()[0]
        process.terminate()
        assert process.wait(20) == 0


def scraped(url: str) -> str:
    with urllib.request.urlopen(url, timeout=20) as answer:
        return str(answer.read().decode())


@pytest.mark.usefixtures("long")
def test_an_exporter_serves_the_current_log_on_this_machine_only(shop, served):
    assert served.startswith("http://127.0.0.1:")
    line = 'logdriven_table_failed_windows{project="shop",table="ods.orders"}'
    assert f"{line} 0.0" in scraped(served)
    ShopLog(shop).fail("ods.orders", day(1), "broken")
    assert f"{line} 1.0" in scraped(served)


@pytest.mark.usefixtures("long")
def test_a_port_that_is_taken_is_bad_usage(shop, served, logdriven):
    port = served.rpartition(":")[2].partition("/")[0]
    result = logdriven("metrics", "--serve", "--port", port)
    assert result.code == 2
    assert "choose another address with --host and --port" in result.err


def queries() -> list[str]:
    """What the dashboard asks Prometheus."""
    dashboard = json.loads(DASHBOARD.read_text())
    asked = [target["expr"] for panel in dashboard["panels"] for target in panel["targets"]]
    variables = [each.get("definition") for each in dashboard["templating"]["list"]]
    return [*asked, *filter(None, variables)]


@pytest.fixture
def everything(shop: Path, logdriven) -> dict[str, set[str]]:
    """Every metric of a project in which everything has happened → its labels."""
    test_a_job_is_measured_by_its_newest_run(shop, logdriven)
    file = shop / "tables/ods/orders.yaml"
    file.write_text(file.read_text() + "\nfreshness: auto\n")
    ShopLog(shop).fail("ods.orders", day(1), "broken")
    families = parsed(logdriven("metrics").out)
    return {each.name: {*each.labels} for family in families for each in family.samples}


def test_the_dashboard_asks_for_metrics_and_labels_that_are_reported(everything):
    asked: set[str] = set()
    for query in queries():
        for metric, labels in re.findall(r"(logdriven_\w+)(?:\{([^}]*)\})?", query):
            assert metric in everything, query
            named = set(re.findall(r"(\w+)=~?\"", labels or ""))
            by = set(re.findall(r"by \((\w+)\)", query))
            by |= set(re.findall(r"label_values\(.*, (\w+)\)", query))
            assert named | by <= everything[metric], query
            asked.add(metric)
    assert asked == set(everything), "every metric is on the dashboard"


def test_legends_name_labels_that_are_reported(everything):
    for panel in json.loads(DASHBOARD.read_text())["panels"]:
        for target in panel["targets"]:
            named = set(re.findall(r"\{\{(\w+)\}\}", target["legendFormat"]))
            (metric,) = set(re.findall(r"logdriven_\w+", target["expr"]))
            assert named <= everything[metric]
