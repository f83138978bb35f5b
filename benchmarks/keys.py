"""How long it takes to load a table along its keys from PostgreSQL, as a ratio to plain Spark.

`python benchmarks/keys.py [--rows 5000000] [--rounds 3]` starts the server that it needs. Both
contestants read by four queries over equal parts of the keys and write Parquet, in one Spark
session and in alternating order: plain Spark by `spark.read.jdbc` and `write.parquet`; ours by a
catch-up with everything that belongs to it (log, lease, the look at the greatest key, counts,
publication). The rows of both are compared.
"""

import argparse
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import yaml
from sqlalchemy import create_engine, text

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from logdriven_dagster.config import load_project
from logdriven_dagster.engine import spark_session
from logdriven_dagster.engine.databases.connections import reader_options
from logdriven_dagster.execution.events import WindowSucceeded
from logdriven_dagster.execution.opening import open_runner
from scripts import servers

NOW = datetime(2022, 1, 1, 12, tzinfo=timezone.utc)
QUERIES = 4
STEP = {
    "step": "load",
    "source": {
        "type": "jdbc",
        "connection": "shop",
        "table": "orders",
        "key_column": "id",
        "partitions": QUERIES,
        "options": {"fetchsize": "10000"},
    },
    "target": {"type": "parquet"},
}


def make_source(url: str, rows: int) -> None:
    """Orders with a gap-free key, an amount, a text and a time."""
    with create_engine(url).begin() as conn:
        conn.execute(
            text("CREATE TABLE orders (id BIGINT, amount NUMERIC(12,2), item TEXT, at TIMESTAMP)")
        )
        query = (
            "INSERT INTO orders SELECT n, (n % 10000) / 100.0, 'item ' || (n % 997), "
            "TIMESTAMP '2021-01-01' + n * INTERVAL '1 second' FROM generate_series(1, :rows) AS n"
        )
        conn.execute(text(query), {"rows": rows})
        conn.execute(text("ALTER TABLE orders ADD PRIMARY KEY (id)"))
        conn.execute(text("ANALYZE orders"))


def make_project(folder: Path, url: str) -> None:
    """A project with one table for each round, so that each round begins at the first key."""
    settings = {
        "project": "keys",
        "connections": {"shop": {"url": url}},
        "spark": {"master": "local[2]", "config": {"spark.driver.memory": "4g"}},
    }
    (folder / "logdriven.yaml").write_text(yaml.safe_dump(settings))


def add_table(folder: Path, n: int) -> str:
    """One more table with the same source."""
    name = f"ods.orders_{n}"
    values = {"table": name, "incremental_type": "auto_inc_id", "period": "1 day", "steps": [STEP]}
    (folder / "tables").mkdir(exist_ok=True)
    (folder / "tables" / f"{n}.yaml").write_text(yaml.safe_dump(values))
    return name


def seconds(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def main() -> None:
    """Print one object of JSON: medians, spread and the ratio."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=5_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    given = parser.parse_args()
    root = Path(f"/tmp/logdriven-keys-{time.time_ns()}")
    try:
        url = servers.start(root)["LOGDRIVEN_TEST_POSTGRES"]
        make_source(url, given.rows)
        with tempfile.TemporaryDirectory() as folder:
            figures = measure(Path(folder), url, given.rows, given.rounds)
        sys.stdout.write(json.dumps(figures, indent=2) + "\n")
    finally:
        servers.stop(root)


def measure(folder: Path, url: str, rows: int, rounds: int) -> dict[str, Any]:
    """Alternating rounds, after one of each that warms the JVM up and is not counted."""
    make_project(folder, url)
    project = load_project(folder)
    spark = spark_session(project)
    options = reader_options(project.connection("shop")) | {"fetchsize": "10000"}
    times: dict[str, list[float]] = {"plain": [], "ours": []}
    for n in range(rounds + 1):
        target = str(folder / f"plain_{n}")

        def plain(target: str = target) -> None:
            bounds = {"lowerBound": 1, "upperBound": rows, "numPartitions": QUERIES}
            partitioned = options | {"dbtable": "orders", "partitionColumn": "id"} | bounds
            frame = spark.read.format("jdbc").options(**partitioned).load()
            frame.write.parquet(target)

        name = add_table(folder, n)

        def ours(name: str = name) -> None:
            runner = open_runner(load_project(folder), spark=lambda: spark)
            events = list(runner.catch_up(NOW + timedelta(days=1), [name]))
            assert isinstance(events[-1], WindowSucceeded), events[-1]
            assert events[-1].steps[-1].counts.target == rows

        contestants = {"plain": plain, "ours": ours}
        for contestant in sorted(contestants, reverse=n % 2 == 0):
            took = seconds(contestants[contestant])
            if n:
                times[contestant].append(took)
        assert spark.read.parquet(target).count() == rows
    medians = {name: statistics.median(each) for name, each in times.items()}
    return {
        "rows": rows,
        "queries": QUERIES,
        "seconds": {name: [round(t, 1) for t in each] for name, each in times.items()},
        "median_seconds": {name: round(median, 1) for name, median in medians.items()},
        "ratio": round(medians["ours"] / medians["plain"], 3),
    }


if __name__ == "__main__":
    main()
