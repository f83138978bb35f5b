"""The dlt program: loads of what DuckDB reads. A script of dlt's own environment.

Its argument is JSON: `query` over the source with `{start}` and `{end}`; `first`, a time; `ends`,
one for each load; `out`, a folder for the tables, and `state`, one for dlt's own.
"""

import json
import sys
from collections.abc import Iterator
from datetime import datetime

import dlt
import duckdb
import pyarrow as pa

told = json.loads(sys.argv[1])
SINCE = dlt.sources.incremental(
    "ordered_at", initial_value=datetime.fromisoformat(told["first"]), range_start="open"
)


@dlt.resource(name="orders", write_disposition="append", table_format="iceberg")
def orders(
    until: str,
    ordered_at: dlt.sources.incremental = SINCE,
) -> Iterator[pa.Table]:
    """Rows that came after the last load, by dlt's own record of it, and before `until`."""
    query = told["query"].format(start=ordered_at.last_value, end=until)
    yield duckdb.sql(query).arrow()


pipeline = dlt.pipeline(
    "bench",
    pipelines_dir=told["state"],
    destination=dlt.destinations.filesystem(told["out"]),
    dataset_name="bench",
)
for end in told["ends"]:
    pipeline.run(orders(end))
