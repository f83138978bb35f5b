"""The conformance tests of sources, over the types that differ in how they restrict a window."""

import sqlite3
from typing import Any

import pyarrow as pa
import pyarrow.parquet
import pytest

from logdriven_dagster.testing.conformance import SourceConformance, SourceScene
from tests.engine.laboratory import Lab

ROWS = [("2022-01-01 01:00:00", 1), ("2022-01-01 23:59:59", 2), ("2022-01-03 00:00:00", 3)]
COLUMNS = {"columns": "at TIMESTAMP, n INT", "window_column": "at"}
SOURCES: dict[str, dict[str, Any]] = {
    "csv": {"type": "csv", "path": "in.csv", **COLUMNS},
    "parquet": {"type": "parquet", "path": "in.parquet", "window_column": "at"},
    "sqlite": {"type": "jdbc", "connection": "lite", "table": "t", "window_column": "at"},
}


@pytest.mark.sampled
class TestSources(SourceConformance):
    @pytest.fixture(params=SOURCES)
    def scene(self, request: pytest.FixtureRequest, lab: Lab) -> SourceScene:
        lab.file("in.csv", "".join(f"{at},{n}\n" for at, n in ROWS))
        times = pa.array([at for at, _ in ROWS]).cast(pa.timestamp("us"))
        times = times.cast(pa.timestamp("us", "UTC"))
        table = pa.table({"at": times, "n": [n for _, n in ROWS]})
        pa.parquet.write_table(table, lab.root / "in.parquet")
        with sqlite3.connect(lab.root / "lite.db") as conn:
            conn.execute("CREATE TABLE t (at TIMESTAMP, n INTEGER)")
            conn.executemany("INSERT INTO t VALUES (?, ?)", ROWS)
        target = {"type": "parquet", "window_column": "at"}
        lab.table("ods.t", {"source": SOURCES[request.param], "target": target})
        return SourceScene(project=lab.project, start=lambda: lab.engine, counts=(2, 0, 1))
