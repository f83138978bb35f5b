"""The price of proving that a database holds the rows that were staged: windows with and without.

`python -m benchmarks.proof [--rows N] [--rounds N]` loads windows of a million rows into tables of
another program on PostgreSQL and MariaDB, and prints the seconds of a window with the proof
and without it, in turns, and the ratio within each round.
"""

import argparse
import statistics
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any
from unittest import mock

import sqlalchemy as sa

from logdriven_dagster.config import load_project
from logdriven_dagster.engine import spark_session
from logdriven_dagster.engine.targets.jdbc.proof import Proof
from logdriven_dagster.execution.events import WindowSucceeded
from logdriven_dagster.execution.opening import open_runner
from scripts import servers

START = datetime(2022, 1, 1, tzinfo=timezone.utc)
PROJECT = """
project: proof
spark: {{master: "local[2]", config: {{spark.driver.memory: 2g}}}}
connections: {{db: {{url: "{url}"}}, other: {{url: "mysql+pymysql://u@localhost/t"}}}}
"""
"""Spark loads the drivers of all connections when it starts."""
TABLE = """
table: ods.t
period: 1 day
default_start: 2022-01-01
steps:
  - step: load
    sql: >-
      SELECT id, sha2(CAST(id AS STRING), 256) AS digest, CAST(id AS DECIMAL(12, 2)) AS amount,
      id * 0.1D AS ratio, CAST(:data_range_start AS TIMESTAMP)
      + make_dt_interval(0, 0, 0, id % 86400) AS at FROM range(0, {rows}, 1, 2)
    target: {{type: jdbc, connection: db, table: t, {mode}}}
"""
MODES = {
    "overwrite_window": "mode: overwrite_window, window_column: at",
    "upsert": "mode: upsert, key: [id]",
}
COLUMNS = {
    "postgresql": "id bigint {key}, digest varchar(64), amount numeric(14, 4), ratio float8, "
    "at timestamptz",
    "mysql": "id bigint {key}, digest varchar(64), amount decimal(14, 4), ratio double, "
    "at datetime(6)",
}


def seconds(spark: Any, url: str, mode: str, rows: int, windows: int) -> list[float]:
    """Load windows into a new table; return the seconds of each with the proof and without it."""
    engine = sa.create_engine(url)
    key = "PRIMARY KEY" if mode == "upsert" else ""
    columns = COLUMNS["postgresql" if engine.name == "postgresql" else "mysql"].format(key=key)
    with engine.begin() as conn:
        conn.execute(sa.text("DROP TABLE IF EXISTS t"))
        conn.execute(sa.text(f"CREATE TABLE t ({columns})"))
    found = []
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        (root / "tables").mkdir()
        (root / "logdriven.yaml").write_text(PROJECT.format(url=url))
        (root / "tables/t.yaml").write_text(TABLE.format(rows=rows, mode=MODES[mode]))
        runner = open_runner(load_project(root), spark=lambda: spark)
        for number in range(windows):
            began = time.monotonic()
            with mock.patch.object(Proof, "require", _nothing if number % 2 else Proof.require):
                events = list(runner.catch_up(START + timedelta(days=number + 1)))
            found.append(time.monotonic() - began)
            done = [event for event in events if isinstance(event, WindowSucceeded)]
            assert [step.counts.target for event in done for step in event.steps] == [rows], events
    engine.dispose()
    return found


def _nothing(*_: object) -> None:
    """Prove nothing."""


@contextmanager
def _servers() -> Iterator[list[str]]:
    root = Path(tempfile.mkdtemp(prefix="logdriven-proof-"))
    try:
        yield list(servers.start(root).values())
    finally:
        servers.stop(root)


def main() -> None:
    """Print a line for each database and write mode."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    given = parser.parse_args()
    with _servers() as urls, tempfile.TemporaryDirectory() as folder:
        Path(folder, "logdriven.yaml").write_text(PROJECT.format(url="postgresql://u@h/d"))
        spark = spark_session(load_project(Path(folder)))
        for url in urls:
            for mode in MODES:
                took = seconds(spark, url, mode, given.rows, 2 * given.rounds + 2)[2:]
                proven, bare = took[::2], took[1::2]
                ratios = [one / other for one, other in zip(proven, bare, strict=True)]
                print(
                    f"{url.partition(':')[0]:19} {mode:16} "
                    f"{statistics.median(proven):6.2f} s with the proof, "
                    f"{statistics.median(bare):6.2f} s without: {statistics.median(ratios):.2f} "
                    f"({min(ratios):.2f} to {max(ratios):.2f})",
                    flush=True,
                )
        spark.stop()


if __name__ == "__main__":
    main()
