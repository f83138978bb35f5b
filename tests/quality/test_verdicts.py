"""What stops publication, and what the run log holds of it, on every database.

Checklist S36, S44, B32.
"""

import json
import textwrap
from pathlib import Path
from typing import Any

import pytest

from logdriven_dagster.config import load_project
from logdriven_dagster.engine import Engine
from logdriven_dagster.execution.events import WindowFailed, WindowSucceeded
from logdriven_dagster.execution.opening import open_runner
from logdriven_dagster.runlog.observed.quality import list_newest
from tests.builders import at
from tests.runlog.logbook import rows

TABLE = """
table: ods.orders
period: 1 day
default_start: 2022-01-01
{more}
steps:
  - step: load
    sql: >-
      SELECT id, IF(id % 10 = 0, NULL, id) AS amount, 'secret' AS name FROM range(1, 101)
    target: {{type: iceberg}}
    {step}
    quality:
      id: [id]
      {quality}
      columns: {{amount: [not_null, {{rule: in_range, max: 95, level: warn}}]}}
"""


class World:
    def __init__(self, root: Path, spark: Any, run_log: str) -> None:
        self.root, self.spark = root, spark
        (root / "logdriven.yaml").write_text(f"project: world\nrun_log: {run_log}\n")

    def run(self, quality: str = "", step: str = "", more: str = "") -> Any:
        """The last event of one run of the first day."""
        path = self.root / "tables/orders.yaml"
        path.parent.mkdir(exist_ok=True)
        path.write_text(TABLE.format(quality=quality, step=step, more=textwrap.dedent(more)))
        return list(self.runner.catch_up(at("2022-01-02 12:00"), max_windows=1))[-1]

    @property
    def runner(self) -> Any:
        return open_runner(load_project(self.root), spark=lambda: self.spark)

    def published(self) -> int:
        return Engine(load_project(self.root), self.spark).read("ods.orders").count()

    def sql(self, query: str) -> list[dict[str, Any]]:
        return rows(self.runner.run_log, query)

    def found(self) -> dict[str, Any]:
        with self.runner.run_log.read() as conn:
            return list_newest(conn, "ods.orders")[0]


@pytest.fixture
def world(tmp_path: Path, spark: Any, database_url: Any) -> World:
    return World(tmp_path, spark, database_url.render_as_string(hide_password=False))


LOG = "SELECT * FROM quality_check_log ORDER BY id"


@pytest.mark.sampled
def test_each_rule_of_an_attempt_is_a_row_with_its_ids_and_counts(world: World):
    assert isinstance(world.run(), WindowSucceeded)
    null, high = world.sql(LOG)
    assert (null["data_check_type"], null["column"], null["error_type"]) == (
        "not_null",
        "amount",
        "error",
    )
    assert (null["error_count"], null["warn_count"], null["checked_count"]) == (10, 0, 100)
    assert json.loads(null["ids"]) == [{"id": n} for n in range(10, 101, 10)]
    assert (high["error_count"], high["warn_count"]) == (0, 4)
    assert (null["job_id"], null["job_name"], null["step_id"]) == (1, "ods.orders", "load")
    (step,) = world.sql("SELECT * FROM step_log")
    assert [step[f"{n}_count"] for n in ("target", "success", "failure")] == [90, 90, 10]


@pytest.mark.sampled
def test_a_rerun_has_rows_of_its_own_and_neither_run_doubles_them(world: World):
    world.run()
    window = load_project(world.root).table("ods.orders").grid.window(0)
    list(world.runner.refresh_windows("ods.orders", [window], at("2022-01-02 12:00")))
    assert [row["job_id"] for row in world.sql(LOG)] == [1, 1, 2, 2]


@pytest.mark.sampled
def test_only_the_columns_of_the_id_are_in_the_log(world: World):
    world.run("min_pass: 99")
    everything = [*world.sql(LOG), *world.sql("SELECT * FROM process_log")]
    assert "secret" not in str([everything, *world.sql("SELECT error FROM step_log")])


@pytest.mark.sampled
def test_below_min_pass_the_attempt_fails_and_reports_the_share(world: World):
    failed = world.run("min_pass: 95")
    assert isinstance(failed, WindowFailed)
    assert failed.error == (
        "quality: only 90 % of 100 rows pass all rules, 10 do not; min_pass is 95 %"
    )
    told = world.found()
    assert (told["status"], told["statistics"]["load.good_percent"]) == ("FAILURE", "90.0000")
    (step,) = world.sql("SELECT * FROM step_log")
    assert [step[f"{n}_count"] for n in ("target", "success", "failure")] == [0, 0, 100]
    assert len(world.sql(LOG)) == 2


@pytest.mark.sampled
def test_at_min_pass_the_attempt_succeeds_with_its_statistics_and_the_hash_of_the_good_file(
    world: World,
):
    assert isinstance(world.run("min_pass: 90"), WindowSucceeded)
    told = world.found()["statistics"]
    hashed = told.pop("load.good_hash")
    assert len(hashed) == 64
    assert told == {
        "load.checked_count": "100",
        "load.good_count": "90",
        "load.bad_count": "10",
        "load.good_percent": "90.0000",
        "load.min_pass": "90",
    }


@pytest.mark.sampled
@pytest.mark.parametrize("blocking", ["true", "[not_null]"])
def test_a_blocking_rule_stops_publication_and_names_count_and_first_ids(world: World, blocking):
    failed = world.run(f"blocking: {blocking}")
    assert isinstance(failed, WindowFailed)
    told = "quality: not_null of amount: 10 rows, such as id=10; id=20; id=30"
    assert failed.error == told
    assert world.sql("SELECT status, error FROM step_log") == [{"status": "FAILURE", "error": told}]
    assert world.found()["rules"][0]["error_count"] == 10


@pytest.mark.sampled
def test_a_warning_blocks_where_its_rule_does(world: World):
    failed = world.run("blocking: [in_range]")
    assert isinstance(failed, WindowFailed)
    assert failed.error.startswith("quality: in_range of amount: 4 rows")


@pytest.mark.sampled
def test_more_rows_than_the_limit_are_refused_before_anything_is_published(world: World):
    failed = world.run(step="max_rows: 89")
    assert isinstance(failed, WindowFailed)
    assert failed.error == "90 rows exceed max_rows, which is 89; nothing is published"
    assert isinstance(world.run(step="max_rows: 90"), WindowSucceeded)
    assert world.published() == 90


@pytest.mark.sampled
def test_tries_that_fail_leave_no_rows_twice(world: World):
    checks = "retries: 2\nretry_interval: 0\nchecks: [{check: fine, sql: SELECT * FROM gone}]"
    assert isinstance(world.run(more=checks), WindowFailed)
    assert len(world.sql(LOG)) == 2


@pytest.mark.sampled
def test_the_log_of_a_repaired_rule_has_no_violation(world: World):
    world.run("min_pass: 95")
    world.run("rows: [{rule: fine, sql: id > 0}]")
    rules = world.found()["rules"]
    assert [(rule["rule"], rule["error_count"]) for rule in rules] == [
        ("not_null", 10),
        ("in_range", 0),
        ("fine", 0),
    ]
