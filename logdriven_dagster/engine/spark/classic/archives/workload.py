"""Training workload for class data archives: the operations that windows typically run."""

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from logdriven_dagster.engine.spark.classic import internals
from logdriven_dagster.engine.spark.classic.java import ensure_java
from logdriven_dagster.engine.spark.classic.launching import start_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_ROUNDS = 4
_ROWS = """
    SELECT id, id % 7 AS k, CAST(id AS STRING) AS text, CAST(id / 3 AS DECIMAL(12, 2)) AS amount,
           TIMESTAMP_SECONDS(id * 10) AS at
    FROM range(100000)
"""
_WINDOW = "at >= TIMESTAMP '1970-01-03' AND at < TIMESTAMP '1970-01-05'"
_QUERY = """
    SELECT k.name, to_date(r.at) AS day, count(*) AS number, sum(r.amount) AS amount,
           max(r.text) AS text, count(DISTINCT r.id) AS ids
    FROM rows r JOIN names k ON k.k = r.k GROUP BY ALL
"""
_LATEST = "SELECT *, row_number() OVER (PARTITION BY k ORDER BY at DESC) AS n FROM rows"


def run_windows(spark: "SparkSession", folder: Path) -> None:
    """Read, transform, count and write a few small windows, each in its own session."""
    rows = str(folder / "rows")
    spark.sql(_ROWS).write.parquet(rows)
    for n in range(_ROUNDS):
        session = spark.newSession()
        whole_stage = "false" if n % 2 else "true"  # see settings.FEW_ROWS
        session.conf.set("spark.sql.codegen.wholeStage", whole_stage)
        _run_window(session, rows, folder / str(n))


def _run_window(session: "SparkSession", rows: str, out: Path) -> None:
    from pyspark.sql import Observation
    from pyspark.sql import functions as f

    counts = Observation("counts")
    window = session.read.parquet(rows).where(_WINDOW)
    window.observe(counts, f.count(f.lit(1)).alias("rows")).createOrReplaceTempView("rows")
    names = session.sql("SELECT id AS k, concat('name', id) AS name FROM range(7)")
    names.createOrReplaceTempView("names")
    session.sql(_QUERY).coalesce(1).write.option("compression", "snappy").parquet(f"{out}/sums")
    counts.get  # noqa: B018 - waits for the counts
    session.sql(_LATEST).where("n = 1").write.parquet(f"{out}/latest")
    few = session.sql("SELECT id, text, amount FROM rows LIMIT 100")
    few.write.json(f"{out}/json")
    few.write.option("header", "true").csv(f"{out}/csv")
    session.read.schema(few.schema).json(f"{out}/json").collect()
    session.read.schema(few.schema).csv(f"{out}/csv", header=True).collect()
    session.read.parquet(f"{out}/sums").inputFiles()


def main(settings: dict[str, str], folder: Path) -> int:
    """Run the workload and return the exit code of the JVM, which writes its archive at exit."""
    ensure_java()
    settings |= {"spark.master": "local[2]", "spark.local.dir": str(folder)}
    # In the session of a training in the background: Linux divides processor time among sessions.
    spark = start_session(settings, own_session=False)
    run_windows(spark, folder)
    gateway = internals.gateway()
    assert gateway is not None
    spark.stop()
    gateway.shutdown()
    gateway.proc.stdin.close()
    return int(gateway.proc.wait())


if __name__ == "__main__":
    given, where = json.loads(sys.argv[1])
    sys.exit(main(given, Path(where)))
