"""`incremental_type: upstream`: a window for each batch that an upstream success queued."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from logdriven_dagster.execution.events import WindowFailed, WindowRefused
from tests.builders import day, hours
from tests.execution.conftest import World
from tests.slices.conftest import noon

DONE, FAILED = "SUCCESS", "FAILURE"
STEP = {
    "step": "load",
    "sql": "SELECT date(:data_range_start) AS day",
    "target": {"type": "iceberg"},
}


class Flow(World):
    """`ods.days`, a row for each day, and what consumes its batches."""

    def __init__(self, root: Path, spark: Any) -> None:
        self.root, self.spark = root, spark
        self.write("logdriven.yaml", "project: flow")
        self.days()
        self.consumer()

    def days(self, name: str = "ods.days", **fields: Any) -> None:
        values = {"table": name, "period": "1 day", "default_start": "2022-01-01", "steps": [STEP]}
        self.write(f"tables/{name}.yaml", yaml.safe_dump({**values, **fields}))

    def consumer(self, name: str = "dwd.c", **fields: Any) -> None:
        sql = "SELECT day, '${DATA_RANGE_START}' AS batch FROM ods.days"
        step = {"step": "copy", "sql": sql, "target": {"type": "iceberg"}}
        values = {"table": name, "incremental_type": "upstream", "period": "1 day"}
        values |= {"depends_on": ["ods.days"], "steps": [step]}
        self.write(f"tables/{name}.yaml", yaml.safe_dump({**values, **fields}))

    def run(self, day: int, *tables: str) -> list[Any]:
        return self.catch_up(now=noon(day), tables=list(tables) or None)

    def ranges(self, table: str = "dwd.c") -> list[tuple[str, str]]:
        """Batches and status of every attempt."""
        return [
            (f"{row['data_range_start']}–{row['data_range_end']}", row["status"])
            for row in self.log(table)
        ]

    def days_of(self, table: str = "dwd.c") -> list[str]:
        return [f"{row[0].day}" for row in self.rows(table)]


@pytest.fixture
def flow(tmp_path: Path, spark: Any) -> Flow:
    return Flow(tmp_path, spark)


@pytest.mark.usefixtures("long")
def test_one_window_for_each_upstream_success_in_its_order_s22(flow: Flow):
    flow.run(4)
    assert flow.ranges() == [("1–1", DONE), ("2–2", DONE), ("3–3", DONE)]
    assert flow.days_of() == ["1", "2", "3"]
    assert [row[1] for row in flow.rows("dwd.c")] == ["1", "2", "3"]


@pytest.mark.usefixtures("long")
def test_the_plan_has_them_all_s22(flow: Flow):
    flow.run(4, "ods.days")
    plan = flow.runner.plan(noon(4)).tables["dwd.c"]
    assert [str(window) for window in plan.unfinished] == ["#0", "#1", "#2"]
    flow.run(4)
    assert flow.runner.plan(noon(4)).tables["dwd.c"].pending == 0


@pytest.mark.usefixtures("long")
def test_a_consumer_that_is_added_later_gets_the_whole_history_s22(flow: Flow):
    (flow.root / "tables" / "dwd.c.yaml").unlink()
    flow.run(3)
    flow.consumer()
    flow.run(4)
    assert flow.days_of() == ["1", "2", "3"]


@pytest.mark.usefixtures("long")
def test_a_refreshed_upstream_window_is_queued_again_s23(flow: Flow):
    flow.run(3)
    days = flow.runner.windows("ods.days", day(1))
    list(flow.runner.refresh_windows("ods.days", days, noon(3)))
    flow.run(3)
    assert [status for _, status in flow.ranges()] == [DONE, DONE, DONE]
    assert flow.days_of() == ["1", "1", "2"]  # a row for each batch: use upsert to replace


def test_a_failed_consumer_gets_the_same_batch_again_b10(flow: Flow):
    flow.consumer(checks=[{"check": "none", "sql": "SELECT 1 FROM copy WHERE day(day) = 2"}])
    flow.run(4)
    flow.consumer()
    flow.run(5)
    assert flow.ranges() == [
        ("1–1", DONE),
        ("2–2", FAILED),
        ("2–2", DONE),
        ("3–3", DONE),
        (flow.ranges()[-1][0], DONE),
    ]
    assert flow.days_of() == ["1", "2", "3", "4"]


@pytest.mark.usefixtures("long")
def test_a_failed_refresh_of_a_consumer_takes_nothing_from_its_queue_s08(flow: Flow):
    flow.run(3)
    flow.consumer(checks=[{"check": "none", "sql": "SELECT 1 FROM copy"}])
    (first,) = flow.runner.slices("dwd.c", ["0"])
    for _ in range(2):
        list(flow.runner.refresh_windows("dwd.c", [first], noon(3)))
    flow.consumer()
    flow.run(4)
    assert flow.ranges()[2:4] == [("1–1", FAILED), ("1–1", FAILED)]
    assert (len(flow.ranges()), flow.ranges()[4][1]) == (5, DONE)
    list(flow.runner.refresh_windows("dwd.c", [first], noon(4)))
    assert flow.ranges()[-1] == ("1–1", DONE)
    assert flow.days_of() == ["1", "2", "3"]


@pytest.mark.usefixtures("long")
def test_two_consumers_take_their_batches_independently_b22(flow: Flow):
    flow.consumer("dwd.d", max_batches=3)
    flow.run(4)
    assert len(flow.ranges("dwd.c")) == 3
    assert flow.ranges("dwd.d") == [("1–3", DONE)]
    assert flow.days_of("dwd.c") == flow.days_of("dwd.d") == ["1", "2", "3"]


@pytest.mark.usefixtures("long")
def test_what_comes_while_the_consumer_is_busy_is_not_lost_b21(flow: Flow):
    flow.run(3, "ods.days")
    events = flow.runner.catch_up(noon(3), ["dwd.c"])
    next(events)
    flow.run(4, "ods.days")
    list(events)
    flow.run(4)
    assert flow.days_of() == ["1", "2", "3"]


@pytest.mark.usefixtures("long")
def test_cut_at_the_end_of_the_day_b08(flow: Flow):
    hourly = [{**STEP, "sql": "SELECT :data_range_start AS day"}]
    flow.days(period="6 hours", steps=hourly)
    flow.consumer(depends_on=[{"table": "ods.days", "cut_pattern": "EOD"}])
    flow.run(2)  # a day and a half
    assert len(flow.ranges()) == 1
    assert [(row[0].day, row[0].hour) for row in flow.rows("dwd.c")] == [
        (1, 0),
        (1, 6),
        (1, 12),
        (1, 18),
    ]


@pytest.mark.usefixtures("long")
def test_what_was_cut_at_the_end_of_the_day_runs_again_when_an_hour_of_it_does(flow: Flow):
    hourly = [{**STEP, "sql": "SELECT :data_range_start AS day, :job_id AS job"}]
    flow.days(period="6 hours", steps=hourly)
    sql = "SELECT day, job FROM ods.days"
    step = {"step": "load", "sql": sql, "target": {"type": "iceberg"}}
    depends = [{"table": "ods.days", "cut_pattern": "EOD"}]
    flow.consumer(depends_on=depends, steps=[step])
    flow.run(2)  # a day and a half
    (waiting,) = flow.runner.plan(noon(2)).queue("dwd.c")
    assert "none of the 2 in its queue is" in waiting.reason

    list(flow.runner.refresh("ods.days", hours(6, 12), noon(2)))
    (again,) = flow.runner.plan(noon(2)).queue("dwd.c")
    assert (again.trigger.value, again.state.value) == ("upstream", "ready")
    flow.run(2)
    assert flow.rows("dwd.c") == flow.rows("ods.days")[:4]
    (waiting,) = flow.runner.plan(noon(2)).queue("dwd.c")
    assert "none of the 2 in its queue is" in waiting.reason


@pytest.mark.usefixtures("long")
def test_with_several_upstreams_a_window_takes_a_batch_of_each(flow: Flow):
    flow.days("ods.more", end="2022-01-03")
    sql = "SELECT d.day FROM ods.days d JOIN ods.more m ON d.day = m.day"
    step = {"step": "join", "sql": sql, "target": {"type": "iceberg"}}
    flow.consumer(depends_on=["ods.days", "ods.more"], steps=[step])
    flow.run(5)
    assert flow.days_of() == ["1", "2"]
    assert flow.runner.plan(noon(5)).tables["dwd.c"].pending == 0


@pytest.mark.usefixtures("long")
def test_a_chain_of_consumers(flow: Flow):
    sql = "SELECT day FROM dwd.c"
    step = {"step": "again", "sql": sql, "target": {"type": "parquet"}}
    flow.consumer("dws.e", depends_on=["dwd.c"], steps=[step])
    flow.run(3)
    assert flow.days_of("dws.e") == ["1", "2"]


@pytest.mark.usefixtures("long")
def test_a_snapshot_whenever_an_upstream_changed(flow: Flow):
    sql = "SELECT count(*) AS n FROM ods.days"
    step = {"step": "snapshot", "sql": sql, "target": {"type": "parquet", "mode": "overwrite"}}
    depends = [{"table": "ods.days", "read": "all"}]
    flow.consumer(depends_on=depends, steps=[step], max_batches=1000)
    flow.run(4)
    assert flow.rows("dwd.c") == [(3,)]
    flow.run(5)
    assert flow.rows("dwd.c") == [(4,)]
    assert len(flow.ranges()) == 2


@pytest.mark.usefixtures("long")
def test_a_window_of_time_behind_batches_waits_for_them(flow: Flow):
    sql = "SELECT count(*) AS n FROM dwd.c"
    daily = {"step": "count", "sql": sql, "target": {"type": "parquet"}}
    flow.days("dws.daily", depends_on=["dwd.c"], steps=[daily])
    flow.run(3, "dws.daily")
    assert flow.log("dws.daily") == []
    flow.run(3)
    assert [row["status"] for row in flow.log("dws.daily")] == [DONE, DONE]
    assert flow.rows("dws.daily") == [(2,), (2,)]


def test_two_at_once_take_different_batches_or_wait(flow: Flow):
    flow.run(3, "ods.days")
    first = flow.runner.catch_up(noon(3), ["dwd.c"])
    next(first)
    assert not [e for e in flow.run(3, "dwd.c") if isinstance(e, (WindowFailed, WindowRefused))]
    list(first)
    assert flow.days_of() == ["1", "2"]
