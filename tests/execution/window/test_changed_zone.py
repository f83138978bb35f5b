"""What windows published before the project's time zone changed stays, once, under its window."""

from pathlib import Path
from typing import Any

import pytest

from logdriven_dagster.testing import Sandbox
from tests.builders import at

TABLE = """
    table: ods.a
    period: 1 day
    default_start: 2022-01-01
    steps:
      - step: load
        sql: SELECT CAST(:data_range_start AS TIMESTAMP) AS starts
        target: {{type: {type}, mode: {mode}}}
"""


@pytest.mark.sampled
@pytest.mark.parametrize("kind", ["parquet append", "iceberg append"])
def test_rows_of_windows_of_another_zone_stay(tmp_path: Path, spark: Any, kind: str):
    target, mode = kind.split()
    sandbox = Sandbox(tmp_path, spark=lambda: spark)
    sandbox.write("tables/a.yaml", TABLE.format(type=target, mode=mode))
    sandbox.write("logdriven.yaml", "project: p\ntimezone: UTC")
    sandbox.run(now="2022-01-03")
    sandbox.write("logdriven.yaml", "project: p\ntimezone: Europe/Berlin")
    sandbox.run(now="2022-01-04")
    begun = [at(f"2022-01-0{day}") for day in (1, 2, 3)]
    expected = sorted([at("2021-12-31 23:00"), *begun])
    assert counted(sandbox) == [instant.timestamp() for instant in expected]
    assert sandbox.run(now="2022-01-04") == []
    berlin = "Europe/Berlin"
    first, last = at("2022-01-01 01:00", berlin), at("2022-01-02 01:00", berlin)
    assert len(sandbox.rows("ods.a", first, last)) == 1


def counted(sandbox: Sandbox) -> list[float]:
    return sorted(row["starts"].timestamp() for row in sandbox.rows("ods.a"))
