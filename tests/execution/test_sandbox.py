"""`logdriven_dagster.testing`: users test their projects without Dagster, on real Spark."""

import threading
from pathlib import Path
from typing import Any

import pytest

from logdriven_dagster.errors import InvalidProjectError, RefusedError
from logdriven_dagster.execution.events import WindowFailed, WindowSucceeded
from logdriven_dagster.testing import Sandbox, memory_run_log
from tests.execution.conftest import NUMBERS, SUMS


@pytest.fixture
def sandbox(tmp_path: Path, spark: Any) -> Sandbox:
    sandbox = Sandbox(tmp_path / "shop", spark=lambda: spark)
    sandbox.write("tables/numbers.yaml", NUMBERS)
    sandbox.write("tables/sums.yaml", SUMS)
    sandbox.write("data/numbers.csv", "day,n\n2022-01-01,1\n2022-01-01,2\n2022-01-02,5")
    return sandbox


def test_windows_run_and_their_rows_and_states_are_reported(sandbox: Sandbox):
    events = sandbox.run(now="2022-01-03")
    assert sum(isinstance(event, WindowSucceeded) for event in events) == 4
    assert sandbox.statuses("dws.sums") == {
        "[2022-01-01, 2022-01-02)": "SUCCESS",
        "[2022-01-02, 2022-01-03)": "SUCCESS",
    }
    assert sorted(row["total"] for row in sandbox.rows("dws.sums")) == [3, 5]
    assert sandbox.rows("dws.sums", "2022-01-02", "2022-01-03") == [{"total": 5}]
    assert sandbox.run(now="2022-01-03") == []


def test_a_failed_window_is_an_event_and_its_log_gives_the_reason(sandbox: Sandbox):
    sandbox.write("data/numbers.csv", "day,n\n2022-01-01,one")
    events = sandbox.run("ods.numbers", now="2022-01-02")
    assert [type(event) for event in events][-1] is WindowFailed
    (attempt,) = sandbox.log("ods.numbers")
    assert "'one'" in attempt["steps"][0]["error"]


def test_a_window_is_refreshed_after_its_source_has_changed(sandbox: Sandbox):
    sandbox.run("ods.numbers", now="2022-01-03")
    sandbox.write("data/numbers.csv", "day,n\n2022-01-01,7")
    sandbox.refresh("ods.numbers", "2022-01-01", "2022-01-02", now="2022-01-03")
    assert [row["n"] for row in sandbox.rows("ods.numbers", "2022-01-01", "2022-01-02")] == [7]
    with pytest.raises(RefusedError, match=r"run .* first"):
        sandbox.refresh("dws.sums", "2022-01-02", "2022-01-03", now="2022-01-03")


def test_the_copy_of_a_project_leaves_it_alone(sandbox: Sandbox, tmp_path: Path, spark: Any):
    sandbox.run(now="2022-01-03")
    copy = Sandbox(tmp_path / "copy", copy_of=sandbox.folder, spark=lambda: spark)
    copy.run("ods.numbers", now="2022-01-02")
    assert list(copy.statuses("ods.numbers")) == ["[2022-01-01, 2022-01-02)"]
    assert len(sandbox.log("ods.numbers")) == 2
    assert not (sandbox.folder / ".logdriven" / "run_log.db").exists()


def test_mistakes_in_files_are_reported(sandbox: Sandbox):
    sandbox.write("tables/sums.yaml", {"table": "dws.sums", "period": "1 day"})
    with pytest.raises(InvalidProjectError, match="steps: missing"):
        sandbox.run(now="2022-01-03")


def test_threads_take_turns_with_a_log_in_memory():
    log = memory_run_log()
    log.write(lambda conn: conn.exec_driver_sql("CREATE TABLE seen (n INT)"))

    def add() -> None:
        for _ in range(20):
            log.write(lambda conn: conn.exec_driver_sql("INSERT INTO seen VALUES (1)"))

    threads = [threading.Thread(target=add) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    with log.read() as conn:
        assert conn.exec_driver_sql("SELECT count(*) FROM seen").scalar() == 80
