"""The projects that the hosts run, on the storage host's bucket, catalog and database."""

import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import yaml

from scripts.lake import rest_catalog, s3
from tests.hosts.machines import Host
from tests.hosts.services import BUCKET, CATALOG_PORT, DATABASE_PORT, S3_PORT, SPARK_PORT

LEASE_SECONDS = 5
SECRETS = {
    "LAKE_KEY": s3.ACCESS_KEY,
    "LAKE_SECRET": s3.SECRET,
    "CATALOG_CREDENTIAL": rest_catalog.CREDENTIAL,
}
"""The environment of who runs a project."""

_LATE = """
table: dws.late
description: Each flight with a word about it, which workers on another host find by Python.
depends_on: [dwd.flights]
steps:
  - {step: rows, sql: "SELECT time_hour, carrier, flight, dep_delay FROM dwd.flights"}
  - {step: judge, python: "late.py:judged", target: {type: iceberg, window_column: time_hour}}
"""
_WORDS = """
from pyspark.sql.functions import udf


@udf("string")
def word(delay):
    return "late" if delay and delay > 15 else "fine"


def judged(rows):
    return rows.withColumn("word", word("dep_delay"))
"""


def add_python(folder: Path) -> None:
    """Add a table of flights whose Python function runs in Spark's workers."""
    (folder / "tables" / "dws" / "late.yaml").write_text(_LATE)
    (folder / "tables" / "dws" / "late.py").write_text(_WORDS)


def database_url(storage: Host, name: str) -> str:
    return f"postgresql+psycopg://postgres@{storage.name}:{DATABASE_PORT}/{name}"


def elsewhere(storage: Host, spark: Host, name: str) -> Mapping[str, Any]:
    """What a project says of the places where everything is that hosts share."""
    return {
        "run_log": database_url(storage, name),
        "warehouse": f"s3://{BUCKET}/{name}",
        "storage": _hidden(s3.properties(f"http://{storage.name}:{S3_PORT}")),
        "catalog": _hidden(rest_catalog.properties(f"http://{storage.name}:{CATALOG_PORT}")),
        "spark": {"remote": f"sc://{spark.name}:{SPARK_PORT}"},
        "lease": f"{LEASE_SECONDS} s",
    }


def _hidden(properties: Mapping[str, str]) -> dict[str, str]:
    """Let secrets come from the environment, as projects must."""
    names = {value: f"${{env:{name}}}" for name, value in SECRETS.items()}
    return {name: names.get(value, value) for name, value in properties.items()}


def deliver(project: Path, to: Host, changes: Mapping[str, Any]) -> None:
    """Put a copy of a project on a host's disk, with settings of its own."""
    folder = to.disk / project.name
    shutil.copytree(project, folder)
    _change(folder, lambda settings: {**settings, **changes})
    for table in folder.glob("tables/*.yaml"):
        text = table.read_text().replace("path: data/", f"path: s3://{BUCKET}/{project.name}-data/")
        table.write_text(text)


def spans(folder: Path, first: str, end: str) -> None:
    """Let the tables of a project begin and end with some days."""
    span = {"default_start": first, "end": end}
    _change(folder, lambda told: {**told, "defaults": {**told["defaults"], **span}})


def _change(folder: Path, change: Callable[[Any], Any]) -> None:
    main = folder / "logdriven.yaml"
    main.write_text(yaml.safe_dump(change(yaml.safe_load(main.read_text())), sort_keys=False))
