"""The conformance tests on Sail. `test_windows` runs them in a process without classic Spark."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from logdriven_dagster.config.checking.engines import EngineContext
from logdriven_dagster.engine.window.engine import start_engine
from logdriven_dagster.plugins.sail.engine_type import Sail
from logdriven_dagster.testing import Sandbox
from logdriven_dagster.testing.conformance import EngineConformance, WindowScene

TABLE = """
table: written
period: 1 day
default_start: 2022-01-01
variables: {writer: ''}
steps:
  - step: s
    source: {type: parquet, path: one.parquet, columns: n BIGINT}
    sql: SELECT '${writer}' AS who FROM source
    target: {type: TYPE}
"""


@pytest.mark.parametrize("target", ["parquet", "iceberg"])
class TestSail(EngineConformance):
    @pytest.fixture
    def scene(self, tmp_path: Path, target: str) -> WindowScene:
        sandbox = Sandbox(tmp_path)
        sandbox.write("logdriven.yaml", "project: test\ntimezone: UTC\nspark: {engine: sail}")
        sandbox.write("tables/written.yaml", TABLE.replace("TYPE", target))
        pq.write_table(pa.table({"n": [1]}), tmp_path / "one.parquet")
        kind = Sail(sandbox.project)

        def start() -> Any:
            return start_engine(EngineContext(kind))

        return WindowScene(
            project=sandbox.project,
            start=start,
            writers=lambda: [row.who for row in start().read("written").collect()],
            fences_empty_table=target != "iceberg",
        )
