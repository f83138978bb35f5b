"""The pytest plug-in: it collects tests of tables, and leaves other pytest runs alone."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.plugins.table_tests.conftest import Bench

PLUG_IN = "logdriven_dagster.plugins.table_tests.pytest_plugin"
TABLE = """
table: ods.orders
steps: [{step: load, sql: SELECT 1 AS id, target: {type: iceberg}}]
"""
TESTS = """
table: ods.orders
tests:
  - {test: right, window: 2022-01-01, expect: {rows: [{id: 1}]}}
  - {test: wrong, window: 2022-01-01, expect: {rows: [{id: 2}]}}
"""
SHOWN = f"""
import sys, pytest
code = pytest.main([sys.argv[1], "-q", "-p", "{PLUG_IN}", "-p", "no:cacheprovider"])
print("CODE", int(code))
print("LOADED", sorted({{"pydantic", "pyspark", "yaml"}} & sys.modules.keys()))
"""


def run_pytest(folder: Path) -> list[str]:
    """Run pytest with the plug-in in a process of its own, and return what it prints."""
    found = subprocess.run(
        [sys.executable, "-c", SHOWN, str(folder)], capture_output=True, text=True, check=True
    )
    return found.stdout.splitlines()


def test_a_run_without_tests_of_tables_loads_nothing(tmp_path: Path):
    (tmp_path / "tests").mkdir()
    (tmp_path / "logdriven.yaml").write_text("not: [valid")
    (tmp_path / "tests/values.yaml").write_text("numbers: [1]\n")
    (tmp_path / "tests/test_one.py").write_text("def test_one(): assert True\n")
    printed = run_pytest(tmp_path)
    assert printed[-2:] == ["CODE 0", "LOADED []"]
    assert "1 passed" in printed[-3]


def test_mistakes_fail_their_own_file_only(tmp_path: Path):
    bench = Bench(tmp_path)
    bench.write("tests/broken.yaml", "test: a\ntable: ods.order\nexpect: {rows: []}")
    bench.write("tests/test_one.py", "def test_one(): assert True")
    printed = "\n".join(run_pytest(tmp_path))
    assert "broken.yaml:2: table: unknown table" in printed
    assert "1 failed, 1 passed" in printed


class Recorder:
    """The results of a pytest run, by the names of its tests."""

    def __init__(self) -> None:
        self.results: dict[str, str] = {}
        self.texts: list[str] = []

    def pytest_runtest_logreport(self, report: Any) -> None:
        if report.when == "call":
            self.results[report.nodeid.partition("::")[2]] = report.outcome
            self.texts.append(report.longreprtext)


def test_tests_of_tables_are_tests_of_pytest(bench: Bench):
    bench.table(TABLE)
    bench.write("tests/orders.yaml", TESTS)
    recorder = Recorder()
    options = ["-q", "-p", PLUG_IN, "-p", "no:cacheprovider", "--capture=no"]
    code = pytest.main([str(bench.folder), *options], plugins=[recorder])
    assert code == 1
    assert recorder.results == {"ods.orders: right": "passed", "ods.orders: wrong": "failed"}
    assert "-  2   missing" in recorder.texts[1]
