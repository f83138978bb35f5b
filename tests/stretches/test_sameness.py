"""Whether windows run in one pass or one by one, rows and log are the same."""

from datetime import datetime
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from logdriven_dagster.engine.queries.window_index import index_by
from logdriven_dagster.execution.arguments import RunArguments
from logdriven_dagster.execution.events import WindowStarted
from logdriven_dagster.model.periods import Grid, Period
from tests.execution.conftest import World
from tests.stretches.conftest import LINES, NOW, together

QUERIES = [
    "SELECT day, CAST(n AS INT) AS n FROM source WHERE n > 30",
    "SELECT day, count(*) AS number, sum(CAST(n AS INT)) AS total FROM source GROUP BY day",
    "SELECT s.day, d.n FROM source s JOIN (VALUES (1), (2)) d (n) ON s.n > d.n",
    "SELECT day, n FROM source WHERE day < DATE '2022-01-03'",
]


TARGETS = ["{type: iceberg, window_column: day}", "{type: iceberg}"]


def world_of(root: Path, spark: Any, query: str, target: str) -> World:
    world = World(root, spark)
    (world.root / "tables/sums.yaml").unlink()
    text = together(target).replace("SELECT day, CAST(n AS INT) AS n FROM source", query)
    world.write("tables/numbers.yaml", text)
    world.numbers(*LINES)
    return world


def test_a_text_with_an_offset_belongs_to_the_window_of_its_instant(spark: Any):
    zone = ZoneInfo("UTC")
    grid = Grid(datetime(2026, 1, 1, tzinfo=zone), Period.parse("1 month"))
    windows = [grid.window(n) for n in range(3)]
    texts = ["2026-01-31 23:30:00-05:00", "2026-02-01 00:30:00+05:00", "2026-02-28 12:00:00+00:00"]
    frame = spark.createDataFrame([(text,) for text in texts], "at STRING")
    (index,) = (frame.select(index_by(frame, "at", windows)).collect(),)
    assert [row[0] for row in index] == [1, 0, 1]


@pytest.mark.sampled
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("query", QUERIES)
def test_rows_and_counts_are_the_same(tmp_path: Path, spark: Any, query: str, target: str):
    told = []
    for size in (1, 4):
        world = world_of(tmp_path / str(size), spark, query, target)
        events = world.catch_up(now=NOW, arguments=RunArguments(batch_size=size))
        passes = [isinstance(event, WindowStarted) for event in events]
        assert passes[:2] == [True, size > 1]
        counts = "status", "data_range_start", "source_count", "target_count", "success_count"
        with world.runner.run_log.read() as conn:
            steps = "SELECT step_log.*, data_range_start FROM job_log JOIN step_log USING (job_id)"
            rows = conn.exec_driver_sql(f"{steps} ORDER BY data_range_start").mappings().all()
        told.append(([[row[name] for name in counts] for row in rows], world.rows("ods.numbers")))
    assert told[0] == told[1]
