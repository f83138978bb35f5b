"""The schema that Spark writes into Parquet files, also where other programs have copied it."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import parquet

from logdriven_dagster.engine.sources.known_sources import KnownSources
from logdriven_dagster.engine.sources.readers import Reading, read_source
from tests.builders import day
from tests.engine.laboratory import Lab
from tests.engine.sources.files.loading import load

SOURCE = {"type": "parquet", "path": "in"}
KEY = b"org.apache.spark.sql.parquet.row.metadata"


def by_spark(lab: Lab, query: str, name: str = "spark") -> Path:
    """Write rows by Spark; return the file."""
    folder = lab.root / name
    lab.spark.sql(query).coalesce(1).write.parquet(str(folder))
    return next(folder.glob("*.parquet"))


def rewrite(lab: Lab, table: pa.Table, name: str = "in/a.parquet") -> None:
    """Write a table by PyArrow, with the metadata of the file that it was read from."""
    path = lab.root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    assert KEY in (table.schema.metadata or {})
    parquet.write_table(table, path)


def rows_of(lab: Lab) -> list[dict[str, Any]]:
    return [row.asDict(recursive=True) for row in lab.engine.read("ods.t").collect()]


def test_a_column_that_pyarrow_added_to_a_file_of_spark_is_read(lab: Lab):
    read = parquet.read_table(by_spark(lab, "SELECT 1 AS id, DATE '2024-01-31' AS day"))
    rewrite(lab, read.append_column("x", pa.array(["p"])))
    load(lab, SOURCE)
    (row,) = rows_of(lab)
    assert row["x"] == "p"
    assert sorted(row) == ["day", "id", "x"]


def test_a_part_of_a_column_that_pyarrow_added_is_read(lab: Lab):
    read = parquet.read_table(by_spark(lab, "SELECT named_struct('a', 1) AS s"))
    parts = pa.StructArray.from_arrays([pa.array([1]), pa.array([2])], ["a", "b"])
    rewrite(lab, read.set_column(0, "s", parts).replace_schema_metadata(read.schema.metadata))
    load(lab, SOURCE)
    assert rows_of(lab) == [{"s": {"a": 1, "b": 2}}]


def test_such_a_file_is_read_among_files_of_spark(lab: Lab):
    file = by_spark(lab, "SELECT 1 AS id", "in")
    read = parquet.read_table(file)
    rewrite(lab, read.append_column("x", pa.array([5])), "in/z.parquet")
    step = {"source": SOURCE, "target": {"type": "parquet"}}
    lab.table("ods.t", step, missing_columns="allow")
    lab.run("ods.t", day(1))
    assert sorted(lab.rows("ods.t"), key=str) == [(1, 5), (1, None)]


QUERIES = {
    "nested": "SELECT CAST(1 AS TINYINT) AS a, ARRAY(MAP('k', NAMED_STRUCT('v', 1.5))) AS `B c`",
    "times": "SELECT TIMESTAMP '2024-01-31 10:00:00' AS t, DATE '2024-01-31' AS d, "
    "TIMESTAMP_NTZ '2024-01-31 10:00:00' AS n",
    "others": "SELECT X'00' AS b, CAST(1 AS DECIMAL(38, 5)) AS d, CAST('x' AS CHAR(3)) AS c",
}


@pytest.mark.parametrize("case", QUERIES)
def test_a_file_of_spark_has_the_columns_that_spark_infers(lab: Lab, case: str):
    by_spark(lab, QUERIES[case], "in")
    lab.table("ods.t", {"source": SOURCE, "target": {"type": "parquet"}})
    run, context = lab.window_run("ods.t", day(1)), lab.spark.sparkContext
    reading = Reading(lab.project, lab.spark, run, lambda: None, KnownSources())
    context.setJobGroup(f"columns of {case}", "")
    frame = read_source(reading, lab.project.table("ods.t").steps[0].source)
    assert context.statusTracker().getJobIdsForGroup(f"columns of {case}") == []
    assert frame.schema == lab.spark.read.parquet(str(lab.root / "in")).schema
    assert context.statusTracker().getJobIdsForGroup(f"columns of {case}") != [], "Spark runs a job"
