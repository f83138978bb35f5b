"""Windows on a cluster whose tasks fail, run twice, and lose their executor."""

import random
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import parquet

from tests.engine.cluster import cluster
from tests.execution.conftest import World
from tests.patience import PATIENCE

pytestmark = pytest.mark.usefixtures("spark_processes")

ROWS = 600_000
PROJECT = """
    project: world
    spark:
      master: MASTER
      config:
        spark.executor.memory: 700m
        spark.speculation: true
        spark.speculation.quantile: 0.5
        spark.speculation.multiplier: 1.1
        spark.speculation.efficiency.enabled: false
        spark.hadoop.mapreduce.fileoutputcommitter.algorithm.version: 2
"""
TABLE = """
    table: ods.numbers
    period: 1 day
    default_start: 2022-01-01
    steps:
      - step: load
        source: {type: parquet, path: numbers}
        python: "trouble.py:run"
        target: {type: iceberg}
"""
TROUBLE = """
    import pathlib

    HERE = pathlib.Path.cwd()

    def run(source, window):
        day = window.start.day

        def pass_on(batches):
            import os, time
            import psutil
            from pyspark import TaskContext

            task = TaskContext.get().partitionId()

            def first(what):
                try:
                    os.close(os.open(HERE / f"{what}-{day}", os.O_CREAT | os.O_EXCL))
                except FileExistsError:
                    return False
                return True

            yield from batches
            if day == 1 and task == 0 and first("failed"):
                raise RuntimeError("a task that fails behind its last row")
            if day == 1 and task == 1 and first("slow"):
                time.sleep(600)  # until another try of the task is ready
            if day == 2 and task == 0 and first("killed"):
                psutil.Process(os.getppid()).parent().kill()
                time.sleep(600)

        return source.repartition(4, "id").mapInArrow(pass_on, source.schema)
"""


@pytest.fixture
def cluster_world(tmp_path: Path) -> Iterator[World]:
    world = World(tmp_path, None)
    world.write("tables/numbers.yaml", TABLE)
    world.write("tables/trouble.py", TROUBLE)
    (tmp_path / "numbers").mkdir()
    draw = random.Random(7)
    for part in range(4):
        ids = range(part, ROWS, 4)
        rows = pa.table({"id": ids, "noise": [draw.getrandbits(62) for _ in ids]})
        parquet.write_table(rows, tmp_path / "numbers" / f"{part}.parquet")
    with cluster(tmp_path) as url:
        world.write("logdriven.yaml", PROJECT.replace("MASTER", url))
        yield world


@pytest.mark.usefixtures("long")
def test_rows_are_written_once_and_counted_once_or_not_at_all(cluster_world: World):
    command = ["-m", "logdriven_dagster.cli", "run", "ods.numbers", "--now", "2022-01-03"]
    said = subprocess.run(
        [sys.executable, *command],
        cwd=cluster_world.root,
        capture_output=True,
        text=True,
        timeout=4 * PATIENCE,
        check=False,
    )
    assert said.returncode == 0, said
    marks = {"failed-1", "slow-1", "killed-2"}
    assert marks <= {path.name for path in cluster_world.root.iterdir()}
    steps = [step for row in cluster_world.log("ods.numbers") for step in row["steps"]]
    counts = [(step["source_count"], step["target_count"]) for step in steps]
    # What an executor took with it was read again, and nobody knows how much of all that was.
    assert counts == [(ROWS, ROWS), (None, ROWS)]
    staged = cluster_world.root.glob(".logdriven/warehouse/ods/numbers/data/*/*.parquet")
    assert sum(parquet.read_metadata(file).num_rows for file in staged) == 2 * ROWS
