"""Delta tables in a bucket: answers that get lost, and how many requests a window costs."""

from collections.abc import Callable
from datetime import timezone
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
import yaml
from pyarrow.parquet import write_table
from pyspark.sql.types import LongType, StructField, StructType, TimestampType

from logdriven_dagster.config import load_project
from logdriven_dagster.engine.targets.store import StagedRows, StoreContext
from logdriven_dagster.errors import AttemptLostError
from logdriven_dagster.model.runs import WindowRun
from logdriven_dagster.plugins.delta.target import commits as delta_commits
from logdriven_dagster.plugins.delta.target.table import DeltaTable, open_target
from scripts.lake import s3
from scripts.lake.faults import Fault
from tests.builders import day
from tests.engine.laboratory import held
from tests.lake import Lake

SCHEMA = StructType([StructField("v", LongType()), StructField("_window_start", TimestampType())])


class Table:
    """A table in the bucket, whose rows another engine than Spark stages."""

    def __init__(self, root: Path, lake: Lake) -> None:
        settings = {"project": "p", **lake.settings(root), "catalog": "sqlite:///catalog.db"}
        settings["storage"]["s3.access-key-id"] = "${env:LAKE_KEY}"
        (root / "logdriven.yaml").write_text(yaml.safe_dump(settings))
        step = {"step": "s", "sql": "SELECT 1 AS v", "target": {"type": "delta"}}
        table = {"table": "t", "period": "1 day", "default_start": "2022-01-01", "steps": [step]}
        (root / "tables").mkdir()
        (root / "tables/t.yaml").write_text(yaml.safe_dump(table))
        self.root, self.project = root, load_project(root)
        self.target: Any = self.project.table("t").output
        spark: Any = None
        self.store = DeltaTable(StoreContext(self.project, spark, dict), "t", self.target)

    def run(self, n: int, token: int) -> WindowRun:
        named = {"table": "t", "step_id": "s", "job_id": token, "fencing_token": token}
        return WindowRun(window=day(n), **named)

    def staged(self, n: int, token: int) -> StagedRows:
        """Two rows of a day."""
        folder = self.root / f".logdriven/warehouse/t/data/{token}-s"
        folder.mkdir(parents=True)
        starts = [day(n).start.astimezone(timezone.utc)] * 2
        rows = {"v": [1, 2], "_window_start": pa.array(starts, pa.timestamp("us", "UTC"))}
        write_table(pa.table(rows), folder / "part-0.parquet")
        location = f"{self.project.warehouse}/t/data/{token}-s"
        return StagedRows(
            run=self.run(n, token),
            location=location,
            schema=SCHEMA,
            source_rows=2,
            rows=2,
            files=(f"{location}/part-0.parquet",),
            staged_by=token,
        )

    def publish(self, n: int, token: int, verify: Callable[[], None] = held) -> Any:
        return self.store.publish([self.staged(n, token)], verify)[0]

    @property
    def now(self) -> Any:
        return open_target(self.project, "t", self.target)


@pytest.fixture
def table(tmp_path: Path, lake: Lake, monkeypatch: pytest.MonkeyPatch) -> Table:
    monkeypatch.setenv("LAKE_KEY", s3.ACCESS_KEY)
    return Table(tmp_path, lake)


@pytest.mark.usefixtures("slow")
def test_a_window_is_published_and_replaced_in_a_bucket(table: Table):
    for n, token in ((1, 1), (2, 2), (1, 3)):
        table.publish(n, token)
    assert (table.now.rows, len(table.now.files)) == (4, 2)


@pytest.mark.usefixtures("slow")
@pytest.mark.sampled
@pytest.mark.parametrize("kind", ["late-500", "late-503", "lost", "500", "dropped"])
def test_a_commit_whose_answer_is_lost_is_neither_doubled_nor_lost(
    table: Table, lake: Lake, kind: str
):
    table.publish(1, 1)
    version = table.now.version
    lake.faults.plan(Fault(kind, "PutObject", f"*/_delta_log/{version + 1:020}.json"))
    published = table.publish(2, 2)
    assert (published.rows, published.table_rows) == (2, 4)
    assert (table.now.rows, table.now.version) == (4, version + 1)


@pytest.mark.usefixtures("slow")
def test_a_frozen_runner_is_refused_by_the_condition_of_its_put(table: Table):
    table.publish(1, 1)

    def freeze() -> None:
        table.store.fence([table.run(1, 3)])

    with pytest.raises(AttemptLostError):
        table.publish(1, 2, freeze)
    assert table.now.rows == 2


@pytest.mark.usefixtures("long")
def test_a_window_costs_few_requests_however_long_the_history_is(
    table: Table, lake: Lake, monkeypatch: pytest.MonkeyPatch
):
    """As many as since the last checkpoint: nobody reads what is older."""
    monkeypatch.setitem(delta_commits.PROPERTIES, "delta.checkpointInterval", "4")
    costs = []
    for token in range(1, 13):
        staged = table.staged(token, token)
        lake.faults.forget()
        table.store.publish([staged], held)
        costs.append(lake.faults.requests.total())
    assert max(costs) <= 60
    assert sum(costs[8:12]) <= sum(costs[4:8]) + 10
