"""Where the suite works, and the Spark settings that all contestants share."""

import os
import sys
from dataclasses import dataclass
from pathlib import Path

from benchmarks.data import Shape

ROOT = Path(__file__).resolve().parents[1]
WORK = ROOT / ".bench"
"""Generated data, environments and state; not under version control."""

MASTER = "local[2]"
SPARK = {
    "spark.master": MASTER,
    "spark.driver.memory": "3g",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}


@dataclass(frozen=True, slots=True)
class Scale:
    """How much work the scenarios are."""

    name: str
    rounds: int
    month: Shape
    """Scenarios A, B, D, E."""
    year: Shape
    """Scenario C."""
    small: Shape
    """Targets other than files."""
    tiny: Shape
    """The cost of a window by itself."""
    large: Shape
    """Scenario T."""
    timeout_seconds: int
    tables: int = 1000
    """How many hourly tables probe P has."""
    hours: int = 24
    """For how long."""
    only: tuple[str, ...] = ()
    """What is run if nothing is named: scenarios, probes and contestants."""


SCALES = {
    "full": Scale(
        "full",
        3,
        Shape(5_000_000, 30),
        Shape(5_000_000, 365),
        Shape(1_000_000, 10),
        Shape(365_000, 365),
        Shape(20_000_000, 4),
        1800,
    ),
    "medium": Scale(
        "medium",
        2,
        Shape(1_000_000, 30),
        Shape(1_000_000, 120),
        Shape(200_000, 5),
        Shape(60_000, 60),
        Shape(4_000_000, 4),
        1800,
    ),
    "quick": Scale(
        "quick",
        1,
        Shape(30_000, 3),
        Shape(60_000, 6),
        Shape(20_000, 2),
        Shape(20_000, 20),
        Shape(60_000, 3),
        600,
        120,
        3,
        ("A", "E", "G", "plain-loop", "plain-pass", "sqlmesh", "dbt", "dagster", "logdriven"),
    ),
}


def environment() -> dict[str, str]:
    """Variables for a contestant's process: those of this one without anybody's project.

    And without what would make every process compile the modules that it imports.
    """
    projects = ("LOGDRIVEN_", "DAGSTER_", "DBT_", "SQLMESH_", "SPARK_", "PYSPARK_", "PYTHONPATH")
    strangers = (*projects, "PYTHONDONTWRITEBYTECODE")
    kept = {name: text for name, text in os.environ.items() if not name.startswith(strangers)}
    return {**kept, "TZ": "UTC", "DO_NOT_TRACK": "1", "PYTHONUNBUFFERED": "1"}


def own_environment() -> dict[str, str]:
    """The same for programs of this checkout, which is measured wherever it lies."""
    return environment() | {"PYTHONPATH": str(ROOT)}


def write_defaults(folder: Path, more: dict[str, str]) -> dict[str, str]:
    """Write `spark-defaults.conf`; the variables with which PySpark finds it."""
    folder.mkdir(parents=True, exist_ok=True)
    lines = [f"{name} {text}\n" for name, text in (SPARK | more).items()]
    (folder / "spark-defaults.conf").write_text("".join(lines))
    return {"SPARK_CONF_DIR": str(folder)}


def own_python() -> str:
    """The interpreter that has logdriven_dagster and PySpark."""
    return sys.executable
