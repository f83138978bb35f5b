"""Windows side by side: what may overlap does, what must not never does, and nothing is lost."""

import os
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from contextlib import closing
from itertools import combinations, pairwise
from pathlib import Path

import pytest

from logdriven_dagster.errors import RunLogError, TransientStepError
from logdriven_dagster.execution.events import (
    WindowFailed,
    WindowRefused,
    WindowSkipped,
    WindowStarted,
    WindowSucceeded,
)
from logdriven_dagster.execution.window.journal import Journal
from tests.builders import day
from tests.execution.conftest import NOW
from tests.patience import PATIENCE, within

SLOW = """
    table: {name}
    period: 1 day
    default_start: 2022-01-01
    end: {end}
    {extra}
    steps:
      - step: make
        python: slow.py:rows
        target: {target}
"""
ROWS = """
    import time

    def rows(spark, run=None):
        time.sleep({seconds})
        return spark.range({rows})
"""
STUCK = "SELECT reflect('java.lang.Thread', 'sleep', bigint(60000)) AS slept FROM range(0, 1, 1, 1)"
DONE = ["01", "02", "03", "04"]
MEETING = 60
"""Seconds in which windows that run at the same time have to meet."""


@pytest.fixture
def bare(world):
    """The project without its two tables."""
    for name in ("numbers", "sums"):
        (world.root / f"tables/{name}.yaml").unlink()
    world.write("tables/slow.py", ROWS.format(seconds=0.3, rows=7))
    return world


def slow(world, name, extra="", *, end="2022-01-05", target="{type: parquet}"):
    """A table each of whose windows makes 7 rows: on Spark in 0.3 s, else at once."""
    text = SLOW.format(name=name, extra=extra, end=end, target=target)
    world.write(f"tables/{name}.yaml", text)


def meet(world, *names, number):
    """Let a step of these tables go on when so many of them are in work at the same time."""
    barrier = threading.Barrier(number)

    def stage(_run, _step):
        barrier.wait(MEETING)
        return 7

    world.steps.update(dict.fromkeys(names, stage))


def spans(world, table=None):
    """Window and times of each attempt, in the order in which they were claimed."""
    return [
        (row["data_range_start"][6:8], row["job_start_time"], row["job_end_time"])
        for row in world.log(table)
    ]


def overlap(one, other):
    return one[1] < other[2] and other[1] < one[2]


def most_at_once(world):
    instants = [(start, 1) for _, start, _ in spans(world)]
    instants += [(end, -1) for _, _, end in spans(world)]
    running, most = 0, 0
    for _, change in sorted(instants):
        running += change
        most = max(most, running)
    return most


def test_independent_tables_run_at_the_same_time_and_each_in_its_order(bare):
    for name in "abc":
        slow(bare, name)
    meet(bare, *"abc", number=3)
    bare.catch_up(max_parallel=3)
    assert most_at_once(bare) == 3
    for name in "abc":
        assert bare.statuses(name) == [(each, "SUCCESS") for each in DONE]
        assert all(one[2] <= other[1] for one, other in pairwise(spans(bare, name)))
        assert bare.engine.published(name) == [f"{name} {day(n)}" for n in (1, 2, 3, 4)]


def test_windows_of_an_unordered_table_run_at_the_same_time(bare):
    slow(bare, "a", "ordered: false", target="{type: iceberg}")
    meet(bare, "a", number=2)
    bare.catch_up(max_parallel=3)
    assert sorted(bare.statuses("a")) == [(each, "SUCCESS") for each in DONE]
    assert any(overlap(one, other) for one, other in combinations(spans(bare, "a"), 2))
    assert sorted(bare.engine.published("a")) == [f"a {day(n)}" for n in (1, 2, 3, 4)]


def test_no_more_windows_than_slots_are_in_work(bare):
    slow(bare, "a", "ordered: false", end="2022-01-05")
    slow(bare, "b", "ordered: false", end="2022-01-05")
    meet(bare, "a", "b", number=2)
    bare.catch_up(max_parallel=2)
    assert most_at_once(bare) == 2


def test_without_max_parallel_no_thread_of_ours_runs_a_window(bare, monkeypatch):
    slow(bare, "a")
    monkeypatch.setattr("logdriven_dagster.execution.catching_up.loop.Slots", None)
    bare.catch_up()
    assert bare.statuses("a") == [(each, "SUCCESS") for each in DONE]


def test_the_project_limits_how_many_run(bare):
    bare.write("logdriven.yaml", "project: world\nmax_parallel: 2")
    slow(bare, "a")
    slow(bare, "b")
    meet(bare, "a", "b", number=2)
    bare.catch_up()
    assert most_at_once(bare) == 2


def test_priority_decides_which_table_takes_a_free_slot(bare):
    for name, priority in {"a": 0, "b": 5, "c": 9}.items():
        slow(bare, name, f"priority: {priority}", end="2022-01-02")
    bare.catch_up(max_parallel=2)
    assert [row["job_name"] for row in bare.log()] == ["c", "b", "a"]


def test_max_windows_bounds_all_slots_together(bare):
    for name in "abc":
        slow(bare, name)
    bare.catch_up(max_parallel=3, max_windows=4)
    assert len(bare.log()) == 4


@pytest.mark.usefixtures("long")
def test_a_window_begins_as_soon_as_its_upstream_has_ended_in_another_slot(spark, world):
    world.catch_up(max_parallel=2)
    numbers = {window: end for window, _, end in spans(world, "ods.numbers")}
    sums = {window: start for window, start, _ in spans(world, "dws.sums")}
    assert all(numbers[window] <= sums[window] for window in DONE)
    assert world.rows("dws.sums") == [(23,), (43,), (63,), (83,)]
    rows = world.log()
    assert all(row["status"] == "SUCCESS" for row in rows)
    assert len(rows) == 8


def test_readers_of_a_window_that_runs_again_wait_for_it(world):
    """The upstream's window is complete in the log of before; a claim would be refused."""
    world.write(
        "tables/sums.yaml",
        (world.root / "tables/sums.yaml").read_text() + "on_upstream_refresh: ignore\n",
    )
    world.catch_up(tables=["ods.numbers"])
    world.sql("UPDATE job_log SET status = 'FAILURE' WHERE data_range_start = '20220101000000'")
    events = world.catch_up(max_parallel=2)
    assert not [event for event in events if isinstance(event, WindowRefused)]
    assert world.statuses("dws.sums") == [(each, "SUCCESS") for each in DONE]


@pytest.mark.usefixtures("long")
def test_counts_are_exact_for_eight_tables_side_by_side(spark, bare):
    for n in range(8):
        folder = f"t{n}"
        slow(bare, folder, target="{type: iceberg}", end="2022-01-03")
        text = (bare.root / f"tables/{folder}.yaml").read_text()
        bare.write(f"tables/{folder}.yaml", text.replace("slow.py", f"{folder}.py"))
        bare.write(f"tables/{folder}.py", ROWS.format(seconds=0.1, rows=1000 + n))
    bare.catch_up(max_parallel=8)
    found = {
        row["job_name"]: (step["source_count"], step["target_count"])
        for row in bare.log()
        for step in row["steps"]
    }
    assert found == {f"t{n}": (1000 + n, 1000 + n) for n in range(8)}
    assert {row["status"] for row in bare.log()} == {"SUCCESS"}
    assert len(bare.rows("t3")) == 2 * 1003


def test_a_failing_table_holds_its_own_windows_alone(bare):
    slow(bare, "good")
    slow(bare, "bad")
    bare.engine.fail("bad")
    events = bare.catch_up(max_parallel=2)
    assert bare.statuses("good") == [(each, "SUCCESS") for each in DONE]
    assert bare.statuses("bad") == [("01", "FAILURE")]
    held = [e for e in events if isinstance(e, WindowSkipped)]
    assert [e.table for e in held] == ["bad"] * 3
    assert bare.engine.published("bad") == []


def test_every_window_is_reported_once_and_its_end_after_its_beginning(bare):
    slow(bare, "a", "ordered: false")
    slow(bare, "b")
    kinds: dict[int, list[type]] = {}
    for event in bare.catch_up(max_parallel=3):
        kinds.setdefault(event.attempt.job_id, []).append(type(event))
    assert set(map(tuple, kinds.values())) == {(WindowStarted, WindowSucceeded)}
    assert len(kinds) == 8


def test_all_windows_in_work_are_discarded_when_the_caller_stops(spark, bare):
    for name in "abc":
        slow(bare, name)
        text = (bare.root / f"tables/{name}.yaml").read_text()
        bare.write(f"tables/{name}.yaml", text.replace("python: slow.py:rows", f'sql: "{STUCK}"'))
    with within(15), closing(bare.runner.catch_up(NOW, max_parallel=3)) as events:
        started = [next(events) for _ in range(3)]
        assert {type(event) for event in started} == {WindowStarted}
        time.sleep(1)
    assert [row["status"] for row in bare.log()] == ["DISCARDED"] * 3
    assert {step["error"] for row in bare.log() for step in row["steps"]} == {
        "interrupted: GeneratorExit"
    }
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("slot ")]


def test_an_interruption_ends_those_in_work_and_reports_those_that_had_ended(bare):
    slow(bare, "a", end="2022-01-02")
    slow(bare, "b", end="2022-01-02")

    def stuck(_run, _step):
        bare.engine.wait(PATIENCE)
        return 7

    bare.steps["b"] = stuck

    told = []

    def interrupt():
        while Counter(map(type, list(told)))[WindowStarted] < 2:
            time.sleep(0.02)
        while bare.statuses("a") != [("01", "SUCCESS")]:
            time.sleep(0.02)
        signal.pthread_kill(threading.main_thread().ident, signal.SIGUSR1)

    def handler(*_):
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGUSR1, handler)
    try:
        threading.Thread(target=interrupt).start()
        with pytest.raises(KeyboardInterrupt):
            told.extend(bare.runner.catch_up(NOW, max_parallel=2))
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert Counter(map(type, told)) == {WindowStarted: 2, WindowSucceeded: 1}
    assert bare.statuses("a") == [("01", "SUCCESS")]
    assert bare.statuses("b") == [("01", "DISCARDED")]
    assert bare.engine.published() == [f"a {day(1)}"]


def test_stretches_of_several_tables_are_in_work_at_a_time(bare):
    for name in "ab":
        text = SLOW.format(
            name=name, extra="batch_size: 2", end="2022-01-05", target="{type: iceberg}"
        )
        sql = "SELECT :data_range_start AS at, 1 AS n"
        bare.write(f"tables/{name}.yaml", text.replace("python: slow.py:rows", f"sql: {sql}"))
    events = bare.catch_up(max_parallel=2, max_windows=6)
    assert sum(isinstance(event, WindowStarted) for event in events) == 6
    bare.catch_up(max_parallel=2)
    for name in "ab":
        assert bare.statuses(name) == [(each, "SUCCESS") for each in DONE]


def test_an_error_of_the_log_lets_the_others_end_and_is_raised_then(bare, monkeypatch):
    slow(bare, "a")
    slow(bare, "b")
    succeed = Journal.succeed

    def failing(self, state, *arguments):
        if state.attempts[0].table == "a":
            raise RunLogError("the log is gone")
        return succeed(self, state, *arguments)

    monkeypatch.setattr(Journal, "succeed", failing)
    with pytest.raises(RunLogError, match="the log is gone"):
        bare.catch_up(max_parallel=2)
    assert ("01", "SUCCESS") in bare.statuses("b")
    assert len(bare.statuses("a")) == 1


def test_a_retry_that_waits_is_interrupted_too(bare):
    slow(bare, "a", "retries: 3\n    retry_interval: 1 hour")
    bare.engine.fail("a", error=TransientStepError("away"))
    slow(bare, "b", end="2022-01-02")
    with closing(bare.runner.catch_up(NOW, max_parallel=2)) as events:
        while not isinstance(next(events), WindowSucceeded):
            pass
        began = time.monotonic()
    assert time.monotonic() - began < 5
    assert bare.statuses("a") == [("01", "DISCARDED")]
    assert bare.log("a")[0]["error_count"] == 1


@pytest.mark.usefixtures("long")
def test_a_killed_process_with_several_windows_in_work_is_taken_over(spark, bare):
    for name in "abc":
        slow(bare, name, "ordered: false", target="{type: iceberg}")
    bare.write("tables/slow.py", ROWS.format(seconds=1.5, rows=7))
    program = (
        "import sys; from logdriven_dagster.execution.opening import open_runner;"
        "from logdriven_dagster.config import load_project;"
        "from tests.execution.conftest import NOW;"
        "list(open_runner(load_project(sys.argv[1])).catch_up(NOW, max_parallel=4))"
    )

    def in_the_middle():
        now = Counter(row["status"] for row in bare.log())
        return now["SUCCESS"] >= 3 and now["RUNNING"] > 1

    environment = {**os.environ, "PYTHONPATH": str(Path.cwd())}
    with subprocess.Popen([sys.executable, "-c", program, str(bare.root)], env=environment) as run:
        try:
            until = time.monotonic() + PATIENCE
            while not in_the_middle():
                assert time.monotonic() < until
                time.sleep(0.2)
        finally:
            run.send_signal(signal.SIGKILL)
    bare.write("tables/slow.py", ROWS.format(seconds=0, rows=7))
    failed = [e for e in bare.catch_up(max_parallel=4) if isinstance(e, WindowFailed)]
    assert failed == []
    for name in "abc":
        done = [each for each, status in bare.statuses(name) if status == "SUCCESS"]
        assert sorted(done) == DONE
        assert len(bare.rows(name)) == 4 * 7
