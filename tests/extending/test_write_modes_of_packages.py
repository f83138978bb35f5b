"""The write mode of docs/custom-sources-and-targets.md, registered by an installed package."""

import json
import re
import sqlite3
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.extending.packages import DOCS, logdriven, register

TABLE = """
table: ods.{name}
period: 1 day
default_start: 2022-01-30
steps:
  - step: load
    sql: SELECT CAST(:data_range_start AS DATE) AS day
    target: {target}
"""
ICEBERG = "{type: iceberg, mode: overwrite_month, window_column: day}"
DATABASE = "{type: jdbc, connection: lite, table: t, mode: overwrite_month}"


def run(root: Path, *words: str) -> "subprocess.CompletedProcess[str]":
    return logdriven(root, root.parent / "site", *words)


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    """A project with the package."""
    pages = (DOCS / "custom-sources-and-targets.md").read_text()
    code = next(
        each for each in re.findall(r"```python\n(.*?)```", pages, re.DOTALL) if "months" in each
    )
    (tmp_path / "site/toys").mkdir(parents=True)
    (tmp_path / "site/toys/months.py").write_text(code)
    entry = "overwrite_month = toys.months:OVERWRITE_MONTH\nbroken = toys.months:OverwriteMonth\n"
    register(tmp_path / "site", f"[logdriven.write_modes]\n{entry}")
    root = tmp_path / "shop"
    (root / "tables").mkdir(parents=True)
    settings = "spark: {master: 'local[2]'}\nconnections: {lite: {url: 'sqlite:///lite.db'}}\n"
    (root / "logdriven.yaml").write_text(f"project: shop\n{settings}")
    for name, target in (("lake", ICEBERG), ("base", DATABASE)):
        (root / f"tables/{name}.yaml").write_text(TABLE.format(name=name, target=target))
    return root


def test_a_window_replaces_the_range_that_the_mode_decides(spark_processes: Any, shop: Path):
    """January has two windows, of which the second removes the rows of the first."""
    ran = run(shop, "run", "--now", "2022-02-02")
    assert ran.returncode == 0, ran.stdout + ran.stderr
    days = ["2022-01-31", "2022-02-01"]
    shown = json.loads(run(shop, "show", "ods.lake", "--json").stdout)
    assert sorted(row["day"] for row in shown) == days
    with sqlite3.connect(shop / "lite.db") as conn:
        assert [day for (day,) in conn.execute("SELECT date(day) AS d FROM t ORDER BY d")] == days


@pytest.mark.usefixtures("slow")
@pytest.mark.parametrize(
    ("target", "mistake"),
    [
        ("{type: iceberg, mode: broken}", "toys.months:OverwriteMonth cannot be used: TypeError"),
        ("{type: delta, mode: overwrite_month}", "is not available in targets of type delta"),
        ("{type: parquet, mode: overwrite_month}", "mode"),
    ],
)
def test_a_mode_that_cannot_be_used_is_an_error_of_its_tables(
    shop: Path, target: str, mistake: str
):
    (shop / "tables/lake.yaml").write_text(TABLE.format(name="lake", target=target))
    refused = run(shop, "validate")
    assert refused.returncode == 2
    assert mistake in refused.stderr
    assert "base.yaml" not in refused.stderr
