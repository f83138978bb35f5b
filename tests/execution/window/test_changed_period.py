"""What longer windows leave of the rows of those within them, in every type and mode of target."""

from pathlib import Path
from typing import Any

import pytest

from logdriven_dagster.errors import PartOfWindowError
from logdriven_dagster.testing import Sandbox

TABLE = """
    table: ods.{name}
    period: {period}
    default_start: 2022-01-01
    steps:
      - step: load
        sql: >-
          SELECT id, CAST(at AS STRING) AS at, {value} AS value
          FROM VALUES (1, TIMESTAMP'2022-01-01 05:30:00Z'), (2, TIMESTAMP'2022-01-01 07:30:00Z'),
          (3, TIMESTAMP'2022-01-02 05:30:00Z') AS t(id, at)
          WHERE at >= CAST(:data_range_start AS TIMESTAMP)
          AND at < CAST(:data_range_end AS TIMESTAMP)
        target: {{{target}}}
"""
KINDS = ("type: iceberg", "type: delta", "type: parquet", "type: jdbc, connection: db")
MODES = ("mode: append", "mode: overwrite", "mode: upsert, key: [id]")
TARGETS = [
    (kind, mode)
    for kind in KINDS
    for mode in MODES
    if (kind, mode) != ("type: parquet", "mode: upsert, key: [id]")
]


def write(sandbox: Sandbox, period: str, value: int) -> None:
    for n, (kind, mode) in enumerate(TARGETS):
        target = f"{kind}, {mode}" + (f", table: t{n}" if "jdbc" in kind else "")
        text = TABLE.format(name=f"t{n}", period=period, value=value, target=target)
        sandbox.write(f"tables/t{n}.yaml", text)


@pytest.mark.usefixtures("long")
def test_a_longer_window_replaces_the_rows_of_those_within_it(tmp_path: Path, spark: Any):
    sandbox = Sandbox(tmp_path, spark=lambda: spark)
    url = f"sqlite:///{tmp_path}/target.db"
    sandbox.write(
        "logdriven.yaml", f"project: p\ntimezone: UTC\nconnections:\n  db: {{url: '{url}'}}"
    )
    write(sandbox, "1 day", 1)
    now = "2022-01-03"
    sandbox.run(now=now)
    write(sandbox, "1 hour", 2)
    with pytest.raises(PartOfWindowError):
        sandbox.refresh("ods.t0", "2022-01-01 05:00", "2022-01-01 06:00", now=now)
    write(sandbox, "2 days", 2)
    found = {}
    for n, target in enumerate(TARGETS):
        sandbox.refresh(f"ods.t{n}", "2022-01-01", "2022-01-03", now=now)
        rows = sandbox.rows(f"ods.t{n}")
        found[target] = sorted((row["id"], row["value"]) for row in rows)
    assert found == {target: [(1, 2), (2, 2), (3, 2)] for target in TARGETS}
