"""A grid that changes under finished windows: they run again as a whole, and never overlap."""

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path

import pytest

from logdriven_dagster.errors import AttemptLostError, PartOfWindowError, RefusedError
from logdriven_dagster.execution.events import WindowFailed
from logdriven_dagster.model.windows import TimeWindow
from logdriven_dagster.runlog.history import logs
from logdriven_dagster.runlog.schema.attempts import job_log
from logdriven_dagster.testing import NullEngine, Sandbox
from logdriven_dagster.testing.null_engine import NullSession
from tests.clock_changes import null_table

NOW = "2022-01-08"


@pytest.fixture
def sandbox(tmp_path: Path) -> Sandbox:
    """A table whose days from the 1st to the 7th are done."""
    sandbox = Sandbox(tmp_path, engine=NullEngine())
    sandbox.write("logdriven.yaml", "project: p\ntimezone: UTC")
    change(sandbox, "1 day")
    sandbox.run(now=NOW)
    return sandbox


def change(sandbox: Sandbox, period: str, start: str = "2022-01-01", **fields: str) -> None:
    sandbox.write("tables/a.yaml", null_table("ods.a", period, start, **fields))


def counting(sandbox: Sandbox) -> list[str]:
    """The windows that count, oldest first; none overlaps another one."""
    with sandbox.run_log.read() as conn:
        (log,) = logs.read_window_states(conn, [sandbox.project.table("ods.a")]).values()
        rows = conn.execute(
            job_log.select().where(job_log.c.latest == 1, job_log.c.status == "SUCCESS")
        ).all()
    zone = sandbox.project.zone
    windows = sorted(TimeWindow.from_seconds(r.window_start, r.window_end, zone) for r in rows)
    assert not any(a.overlaps(b) for a, b in pairwise(windows))
    assert all(any(range_.contains(window) for range_ in log.finished) for window in windows)
    return [str(window) for window in windows]


def test_a_part_of_a_finished_window_is_refused_with_the_command_that_runs_it_as_a_whole(sandbox):
    change(sandbox, "1 hour")
    before = sandbox.log()
    with pytest.raises(PartOfWindowError) as refusal:
        sandbox.refresh("ods.a", "2022-01-01 05:00", "2022-01-02 03:00", now=NOW)
    command = "`logdriven refresh ods.a --from 2022-01-01 --to 2022-01-03`"
    assert command in str(refusal.value)
    assert "[2022-01-01, 2022-01-02), [2022-01-02, 2022-01-03)" in str(refusal.value)
    with pytest.raises(PartOfWindowError, match=r"overlaps \[2022-01-01, 2022-01-02\), which ran"):
        sandbox.refresh("ods.a", "2022-01-01 05:00", "2022-01-01 06:00", now=NOW)
    assert sandbox.log() == before
    sandbox.refresh("ods.a", "2022-01-01", "2022-01-03", now=NOW)
    days = ["ods.a [2022-01-01, 2022-01-02)", "ods.a [2022-01-02, 2022-01-03)"]
    assert sandbox.engine.published()[-2:] == days
    assert len(counting(sandbox)) == 7


def test_a_window_off_the_grid_is_refused_by_its_claim(sandbox):
    change(sandbox, "1 hour")
    hours = sandbox.project.table("ods.a").grid
    now = sandbox._read_instant(NOW)
    with pytest.raises(PartOfWindowError, match=r"--from 2022-01-01 --to 2022-01-02"):
        list(sandbox.runner.refresh_windows("ods.a", [hours.window(5)], now))
    assert len(counting(sandbox)) == 7


@pytest.mark.parametrize("batch", ["1", "all"])
def test_a_longer_window_takes_the_place_of_those_within_it(sandbox, batch):
    change(sandbox, "3 days", batch_size=batch)
    sandbox.refresh("ods.a", "2022-01-01", "2022-01-07", now=NOW)
    expected = ["[2022-01-01, 2022-01-04)", "[2022-01-04, 2022-01-07)", "[2022-01-07, 2022-01-08)"]
    assert counting(sandbox) == expected
    assert sandbox.run(now=NOW) == []


def test_a_longer_window_that_fails_before_it_publishes_leaves_those_within_it(sandbox):
    before = counting(sandbox)
    change(sandbox, "7 days")
    sandbox.engine.fail("ods.a")
    events = sandbox.refresh("ods.a", "2022-01-01", "2022-01-08", now=NOW)
    assert [event.stands for event in events if isinstance(event, WindowFailed)] == [True]
    assert counting(sandbox) == before
    assert sandbox.run(now=NOW) == []


@contextmanager
def lost(method: str) -> Iterator[None]:
    """The runner stops at a step's work, and its lease runs out."""

    def lose(*_args):
        raise AttemptLostError("lost")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(NullSession, method, lose)
        yield


def expire(sandbox: Sandbox) -> None:
    expired = "UPDATE job_log SET lease_expires_at = '2022-01-01 00:00:00' WHERE status = 'RUNNING'"
    sandbox.run_log.write(lambda conn: conn.exec_driver_sql(expired))


@pytest.mark.usefixtures("slow")
@pytest.mark.sampled
@pytest.mark.parametrize("period", ["1 day", "1 hour", "7 days"])
def test_a_longer_window_that_is_lost_while_it_publishes_leaves_nothing_finished_within_it(
    sandbox, period
):
    change(sandbox, "7 days")
    with lost("publish"):
        sandbox.refresh("ods.a", "2022-01-01", "2022-01-08", now=NOW)
    assert counting(sandbox) == []
    expire(sandbox)
    change(sandbox, period)
    sandbox.run(now=NOW)
    assert len(counting(sandbox)) == {"1 day": 7, "1 hour": 7 * 24, "7 days": 1}[period]


@pytest.mark.parametrize("method", ["stage", "publish"])
@pytest.mark.parametrize("start", ["2022-01-01", "2022-01-02T06:00:00"])
def test_a_lost_refresh_of_an_earlier_grid_runs_again_as_a_whole(sandbox, method, start):
    before = counting(sandbox)
    with lost(method):
        sandbox.refresh("ods.a", "2022-01-02", "2022-01-03", now=NOW)
    expire(sandbox)
    change(sandbox, "1 hour", start)
    plan = sandbox.runner.plan(sandbox._read_instant(NOW))
    assert [str(each.window) for each in plan.windows()] == ["[2022-01-02, 2022-01-03)"]
    now, hours = sandbox._read_instant(NOW), sandbox.project.table("ods.a").grid
    first = hours.window(hours.index(sandbox._read_instant("2022-01-02")))
    with pytest.raises(RefusedError):
        list(sandbox.runner.refresh_windows("ods.a", [first], now))
    sandbox.run(now=NOW)
    assert counting(sandbox) == before


@pytest.mark.parametrize("again", ["refresh", "run"])
def test_a_longer_window_replaces_the_failed_ones_within_it(sandbox: Sandbox, again: str):
    sandbox.write("tables/b.yaml", null_table("ods.b", "1 day", "2022-01-01", ordered="false"))
    for n in (1, 3) if again == "refresh" else (1, 2, 3):
        sandbox.engine.fail("ods.b", f"2022-01-0{n}")
    sandbox.run("ods.b", now="2022-01-04")
    sandbox.write("tables/b.yaml", null_table("ods.b", "1 month", "2022-01-01", ordered="false"))
    if again == "refresh":
        sandbox.refresh("ods.b", "2022-01-01", "2022-02-01", now="2022-02-02")
    else:
        sandbox.run("ods.b", now="2022-02-02")
    with sandbox.run_log.read() as conn:
        (log,) = logs.read_window_states(conn, [sandbox.project.table("ods.b")]).values()
    assert [str(window) for window in log.finished] == ["[2022-01-01, 2022-02-01)"]
    assert log.open == ()
    latest = [row["status"] for row in sandbox.log("ods.b") if row["latest"] == 1]
    assert latest == ["SUCCESS"]
