"""A Hive metastore (embedded Derby) in the state folder, which SQLMesh and dbt keep tables in.

Both need one that outlives the process. `raw.orders` in it is the generated data. It is made once
for each source and copied into a state folder, which nobody times.
"""

import shutil
import subprocess
import sys
from pathlib import Path

from benchmarks.settings import WORK, own_environment, own_python, write_defaults
from benchmarks.tasks import Task

SOURCE_TABLE = "raw.orders"


def prepare(task: Task) -> dict[str, str]:
    """Put the metastore into an empty state folder; the variables that make Spark use it."""
    template = WORK / "metastores" / task.source.name
    if not template.exists():
        draft = template.with_suffix(".draft")
        shutil.rmtree(draft, ignore_errors=True)
        draft.mkdir(parents=True)
        variables = _defaults(draft)
        command = [own_python(), "-m", "benchmarks.metastore", str(task.source)]
        subprocess.run(
            command, cwd=draft, env=own_environment() | variables, check=True, capture_output=True
        )
        draft.rename(template)
    shutil.copytree(template / "metastore", task.state / "metastore")
    return _defaults(task.state)


def variables(task: Task) -> dict[str, str]:
    """The variables that `prepare` returned."""
    return {"SPARK_CONF_DIR": str(task.state / "conf")}


def _defaults(folder: Path) -> dict[str, str]:
    url = f"jdbc:derby:;databaseName={folder / 'metastore'};create=true"
    return write_defaults(
        folder / "conf",
        {
            "spark.sql.catalogImplementation": "hive",
            "spark.sql.warehouse.dir": str(folder / "warehouse"),
            "spark.hadoop.javax.jdo.option.ConnectionURL": url,
            "spark.driver.extraJavaOptions": f"-Dderby.system.home={folder}",
            "spark.sql.sources.partitionOverwriteMode": "dynamic",
            "spark.hadoop.hive.exec.dynamic.partition.mode": "nonstrict",
        },
    )


def _make(source: str) -> None:
    from pyspark.sql import SparkSession

    spark = SparkSession.builder.enableHiveSupport().getOrCreate()
    database, _, _ = SOURCE_TABLE.partition(".")
    folder = Path.cwd() / database
    spark.sql(f"CREATE DATABASE IF NOT EXISTS {database} LOCATION '{folder}'")
    spark.sql(f"CREATE TABLE {SOURCE_TABLE} USING parquet LOCATION '{source}'")
    if any("=" in path.name for path in Path(source).iterdir()):
        spark.sql(f"MSCK REPAIR TABLE {SOURCE_TABLE}")
    spark.stop()


if __name__ == "__main__":
    _make(sys.argv[1])
