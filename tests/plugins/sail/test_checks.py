"""Checks on Sail: they stop what Spark stops, and say how many rows there are."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from logdriven_dagster.config import load_project
from logdriven_dagster.errors import InvalidProjectError
from logdriven_dagster.execution.opening import open_runner
from tests.builders import at
from tests.plugins.sail.projects import COUNTS, log_of, published, run_on_sail, write

pytestmark = pytest.mark.usefixtures("long")

SUMS = "SELECT s.name, count(*) AS n, sum(s.quantity) AS quantity FROM source s GROUP BY s.name"
CHECKS = {
    "ods.good": "SELECT * FROM sums WHERE n > 24 OR quantity < 0",
    "ods.bad": "SELECT s.name FROM sums s JOIN copied c ON c.name = s.name WHERE c.id > 40",
    "ods.beside": "SELECT s.n FROM sums s LEFT JOIN ods.each e ON e.name = s.name WHERE e.id < 0",
}


def write_checked(root: Path, engine: str) -> None:
    write(root, engine)
    each = yaml.safe_load((root / "tables/ods.each.yaml").read_text())
    source = each["steps"][0]["source"]
    target = {"type": "iceberg"}
    for name, sql in CHECKS.items():
        other = {"type": "parquet", "path": f"copies/{name}", "window_column": "at"}
        steps = [
            {"step": "sums", "source": source, "sql": SUMS, "target": target},
            {"step": "copied", "source": source, "target": other},
        ]
        checks = [{"check": "as_wanted", "sql": sql}]
        table = {**each, "table": name, "steps": steps, "checks": checks}
        table |= {"depends_on": ["ods.each"]} if "ods.each" in sql else {}
        (root / f"tables/{name}.yaml").write_text(yaml.safe_dump(table))


@pytest.fixture(scope="module")
def worlds(tmp_path_factory: pytest.TempPathFactory, spark: Any) -> tuple[Path, Path]:
    """One project that ran on Sail, and one that ran on Spark."""
    sail, oracle = tmp_path_factory.mktemp("on-sail"), tmp_path_factory.mktemp("on-spark")
    names = ["ods.each", *CHECKS]
    write_checked(sail, "sail")
    write_checked(oracle, "spark")
    run_on_sail(sail, "run", "--now", "2024-01-04", *names)
    list(open_runner(load_project(oracle), spark=lambda: spark).catch_up(at("2024-01-04"), names))
    return sail, oracle


def test_what_passes_on_spark_passes_on_sail(worlds: tuple[Path, Path]) -> None:
    for name in ("ods.good", "ods.beside"):
        sail, oracle = (published(root, name) for root in worlds)
        assert sail
        assert sail == oracle


def test_each_step_has_the_counts_that_it_has_on_spark(worlds: tuple[Path, Path]) -> None:
    sail, oracle = (log_of(root, COUNTS) for root in worlds)
    assert len([row for row in sail if row["job_name"] == "ods.good"]) == 6
    assert sail == oracle


def test_violations_stop_the_window_with_their_number(worlds: tuple[Path, Path]) -> None:
    query = "SELECT error FROM step_log WHERE error IS NOT NULL ORDER BY job_id"
    told = [[row["error"].partition("\n")[0] for row in log_of(root, query)] for root in worlds]
    assert told[0] == told[1]
    assert told[0][0].startswith("check as_wanted: ")


def test_a_check_that_is_not_proven_is_refused_by_its_name(tmp_path: Path) -> None:
    write_checked(tmp_path, "sail")
    path = tmp_path / "tables/ods.good.yaml"
    path.write_text(path.read_text().replace("quantity < 0", "reverse(name) = name"))
    with pytest.raises(InvalidProjectError, match=r"checks\[0\]\.sql: the function reverse"):
        load_project(tmp_path)
