"""`logdriven_dagster.testing.NullEngine`: users test order, retries and failures without Spark."""

from pathlib import Path

import pytest
from dagster import AssetKey, DagsterInstance

from logdriven_dagster import build_definitions
from logdriven_dagster.config.models.steps import StepConfig
from logdriven_dagster.errors import RunLogError, TerminalStepError, TransientStepError, UsageError
from logdriven_dagster.execution.events import (
    WindowFailed,
    WindowLost,
    WindowSetBack,
    WindowStarted,
    WindowSucceeded,
)
from logdriven_dagster.model.runs import WindowRun
from logdriven_dagster.testing import NullEngine, Sandbox, null_engine
from logdriven_dagster.testing.conformance import WRITER, EngineConformance, WindowScene
from tests.execution.conftest import NUMBERS, SUMS
from tests.execution.crashes import EXPIRE

NOW = "2022-01-04"
ASKED = "the test asked for this failure"
ONE, TWO, THREE = "[2022-01-01, 2022-01-02)", "[2022-01-02, 2022-01-03)", "[2022-01-03, 2022-01-04)"

TWO_STEPS = """
    table: many
    period: 1 day
    default_start: 2022-01-01
    steps:
      - {step: first, sql: SELECT 1 AS one, target: {type: iceberg, name: many_first}}
      - {step: second, sql: SELECT one + 1 AS two FROM first, target: {type: iceberg}}
"""


def sandbox_of(folder: Path, engine: NullEngine, numbers: str = NUMBERS) -> Sandbox:
    """A project of two tables; the file that one of them reads is not there."""
    sandbox = Sandbox(folder, engine=engine)
    sandbox.write("tables/numbers.yaml", numbers)
    sandbox.write("tables/sums.yaml", SUMS)
    return sandbox


@pytest.fixture
def sandbox(tmp_path: Path) -> Sandbox:
    return sandbox_of(tmp_path, NullEngine())


def attempts(sandbox: Sandbox) -> list[tuple[str, int]]:
    """Table and attempt of each publication."""
    return [(each.table, each.job_id) for each in sandbox.engine.publications]


def test_windows_are_published_in_the_order_of_the_plan(sandbox: Sandbox):
    events = sandbox.run(now="2022-01-03")
    assert sum(isinstance(event, WindowSucceeded) for event in events) == 4
    assert sandbox.engine.published("ods.numbers") == [f"ods.numbers {ONE}", f"ods.numbers {TWO}"]
    order = sandbox.engine.published()
    assert order.index(f"ods.numbers {TWO}") < order.index(f"dws.sums {TWO}")
    assert sandbox.run(now="2022-01-03") == []


def test_a_failure_that_a_test_asks_for_holds_what_is_behind_it(sandbox: Sandbox):
    sandbox.engine.fail("ods.numbers", "2022-01-02")
    failed = [event for event in sandbox.run(now=NOW) if isinstance(event, WindowFailed)]
    assert [event.error for event in failed] == [ASKED]
    assert sandbox.engine.published("dws.sums") == [f"dws.sums {ONE}"]
    assert sandbox.statuses("ods.numbers") == {ONE: "SUCCESS", TWO: "FAILURE", THREE: "DISCARDED"}
    sandbox.run(now=NOW)
    assert sandbox.engine.published("dws.sums") == [
        f"dws.sums {each}" for each in (ONE, TWO, THREE)
    ]


@pytest.mark.parametrize(("times", "status"), [(2, "SUCCESS"), (3, "FAILURE")])
def test_a_transient_failure_is_retried_as_often_as_the_table_allows(
    tmp_path: Path, times: int, status: str
):
    retried = NUMBERS.replace("period:", "retries: 2\n    period:")
    sandbox = sandbox_of(tmp_path, NullEngine(), retried)
    sandbox.engine.fail("ods.numbers", error=TransientStepError("away"), times=times)
    sandbox.run("ods.numbers", now="2022-01-02")
    assert sandbox.statuses("ods.numbers") == {ONE: status}
    assert sandbox.log("ods.numbers")[0]["error_count"] == times


def test_a_step_delivers_the_rows_and_the_error_that_a_test_requests(tmp_path: Path):
    def stage(run, step):
        if step.step == "add":
            raise TerminalStepError("no sum")
        return 7

    sandbox = sandbox_of(tmp_path, NullEngine(stage=stage))
    sandbox.run(now="2022-01-02")
    numbers, sums = sandbox.log()
    assert numbers["steps"][0]["target_count"] == 7
    assert (sums["status"], sums["steps"][0]["error"]) == ("FAILURE", "no sum")


def test_a_check_fails_as_a_test_requests(tmp_path: Path):
    def check(run, check):
        raise TerminalStepError(f"{check.check}: 3 rows")

    checked = NUMBERS + "    checks: [{check: positive, sql: SELECT * FROM load}]\n"
    sandbox = sandbox_of(tmp_path, NullEngine(check=check), checked)
    *_, failed = sandbox.run("ods.numbers", now="2022-01-02")
    assert failed.error == "positive: 3 rows"
    assert sandbox.engine.published() == []


@pytest.mark.usefixtures("slow")
def test_a_slow_step_is_stopped_by_the_timeout_of_its_table(tmp_path: Path):
    def stage(run, step):
        NullEngine.wait(300)
        return 1

    limited = NUMBERS.replace("period:", "timeout: 1 s\n    timeout_strategy: fail\n    period:")
    sandbox = sandbox_of(tmp_path, NullEngine(stage=stage), limited)
    *_, failed = sandbox.run("ods.numbers", now="2022-01-02")
    assert "exceeds its timeout" in failed.error


def test_a_slow_step_ends_when_its_condition_holds(tmp_path: Path):
    engine = NullEngine(stage=lambda *_: NullEngine.wait(300, lambda: True) or 1)
    sandbox = sandbox_of(tmp_path, engine)
    sandbox.run("ods.numbers", now="2022-01-02")
    assert engine.published() == [f"ods.numbers {ONE}"]


def test_an_attempt_that_a_newer_one_has_fenced_publishes_nothing(tmp_path: Path):
    waiting = ["a second runner"]

    def stage(run, step):
        if waiting:
            waiting.pop()
            with sandbox.run_log.begin() as conn:
                conn.exec_driver_sql(EXPIRE)
            sandbox.run("ods.numbers", now="2022-01-02")
        return 1

    sandbox = sandbox_of(tmp_path, NullEngine(stage=stage))
    events = sandbox.run("ods.numbers", now="2022-01-02")
    assert [type(event) for event in events] == [WindowStarted, WindowLost]
    assert attempts(sandbox) == [("ods.numbers", 2)]


def test_an_attempt_takes_over_what_a_dead_one_has_staged(tmp_path: Path):
    staged = []

    def stage(run, step):
        staged.append((run.job_id, step.step))
        if staged == [(1, "first"), (1, "second")]:
            raise RunLogError("as if the process were gone")
        return 1

    sandbox = Sandbox(tmp_path, engine=NullEngine(stage=stage))
    sandbox.write("tables/many.yaml", TWO_STEPS)
    with pytest.raises(RunLogError):
        sandbox.run(now="2022-01-02")
    with sandbox.run_log.begin() as conn:
        conn.exec_driver_sql(EXPIRE)
    sandbox.run(now="2022-01-02")
    assert staged == [(1, "first"), (1, "second"), (2, "second")]
    assert attempts(sandbox) == [("many", 2), ("many", 2)]


def test_windows_of_one_pass_run_in_smaller_ones_after_a_failure(tmp_path: Path):
    together = NUMBERS.replace("{type: iceberg}", "{type: iceberg, window_column: day}")
    sandbox = sandbox_of(tmp_path, NullEngine(), together + "    batch_size: all\n")
    sandbox.engine.fail("ods.numbers", "2022-01-02")
    events = sandbox.run("ods.numbers", now=NOW)
    assert sum(isinstance(event, WindowSetBack) for event in events) == 3
    assert [event.error for event in events if isinstance(event, WindowFailed)] == [ASKED]
    assert [job_id for _, job_id in attempts(sandbox)] == [4]  # the next one failed by itself
    sandbox.engine.clear()
    assert sandbox.engine.published() == []


@pytest.mark.usefixtures("slow")
def test_jobs_of_dagster_run_on_the_null_engine_within_its_block(sandbox: Sandbox):
    definitions = build_definitions(sandbox.folder)
    key = AssetKey(["ods", "numbers"])
    job = definitions.resolve_implicit_global_asset_job_def()
    with null_engine() as engine, DagsterInstance.ephemeral() as instance:
        result = job.execute_in_process(
            instance=instance, asset_selection=[key], partition_key="2022-01-01"
        )
    assert result.success
    assert engine.published() == [f"ods.numbers {ONE}"]


def test_rows_are_refused_with_the_way_on(sandbox: Sandbox):
    sandbox.run(now="2022-01-02")
    with pytest.raises(UsageError, match="cannot be read on the null engine; run this on Spark"):
        sandbox.rows("ods.numbers")


def test_a_sandbox_on_spark_has_no_null_engine(tmp_path: Path):
    with pytest.raises(UsageError, match="this sandbox runs on Spark; give it `engine=NullEngine"):
        _ = Sandbox(tmp_path).engine


class TestNullEngine(EngineConformance):
    @pytest.fixture
    def scene(self, tmp_path: Path) -> WindowScene:
        written: dict[str, str] = {}

        def stage(run: WindowRun, step: StepConfig) -> int:
            written[f"null/{run.job_id}/{step.step}"] = str(run.variables[WRITER])
            return 1

        def writers() -> list[str]:
            published = engine._warehouse.published.items()
            return list({each.window: written[rows.location] for each, rows in published}.values())

        engine = NullEngine(stage=stage)
        sandbox = Sandbox(tmp_path, engine=engine)
        sandbox.write("tables/written.yaml", NUMBERS.replace("ods.numbers", "written"))
        return WindowScene(project=sandbox.project, start=lambda: engine, writers=writers)
