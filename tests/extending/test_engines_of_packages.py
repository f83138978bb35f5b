"""An engine that an installed package registers: the one of docs/engines.md."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.extending.packages import DOCS, install, logdriven, register

TESTING = DOCS / "testing.md"
PLAIN = """
table: ods.plain
period: 1 day
default_start: 2022-01-01
variables: {writer: default}
steps: [{step: s, sql: "SELECT '${writer}'", target: {type: parquet}}]
"""
WITH_SOURCE = """
table: ods.read
period: 1 day
default_start: 2022-01-01
steps: [{step: s, source: {type: parquet, path: data}, target: {type: parquet}}]
"""


class Shop:
    """A project with the package, and the command line in that environment."""

    def __init__(self, folder: Path) -> None:
        self.root, self.site = folder / "shop", folder / "site"
        install("engines.md", self.site)
        (self.root / "tables").mkdir(parents=True)
        self.use("ledger")
        self.table("plain", PLAIN)

    def use(self, engine: str) -> None:
        text = f"project: shop\ntimezone: Asia/Tokyo\nspark: {{engine: {engine}}}\n"
        (self.root / "logdriven.yaml").write_text(text)

    def table(self, name: str, text: str) -> None:
        (self.root / f"tables/{name}.yaml").write_text(text)

    def logdriven(self, *words: str) -> "subprocess.CompletedProcess[str]":
        return logdriven(self.root, self.site, *words)


@pytest.fixture
def shop(tmp_path: Path) -> Shop:
    return Shop(tmp_path)


@pytest.mark.usefixtures("slow")
def test_a_project_runs_on_it_without_spark(shop: Shop):
    ran = shop.logdriven("run", "--now", "2022-01-03")
    assert ran.returncode == 0, ran.stdout + ran.stderr
    log = json.loads(shop.logdriven("log", "--json").stdout)
    ended = [(row["status"], row["application_id"], row["steps"][0]["target_count"]) for row in log]
    assert ended == [("SUCCESS", "ledger", 1)] * 2
    assert len(list((shop.root / "ledger/ods.plain").glob("*.json"))) == 2
    read = shop.logdriven("audit", "ods.plain")
    assert read.returncode == 2


@pytest.mark.usefixtures("slow")
def test_a_table_that_it_does_not_support_is_an_error_or_left_to_spark(shop: Shop):
    shop.table("read", WITH_SOURCE)
    refused = shop.logdriven("validate")
    assert refused.returncode == 2
    problem = "table: not supported on Ledger: a step without sql, or with a source"
    assert problem in refused.stderr
    shop.use("auto")
    said = shop.logdriven("validate").stdout
    assert "On Ledger: ods.plain." in said
    ledgers = "Ledger: a step without sql, or with a source"
    sails = "Sail: timezone: times in Asia/Tokyo are not supported on Sail"
    assert f"On Spark: ods.read ({ledgers}; {sails})" in said


@pytest.mark.usefixtures("slow")
def test_one_that_cannot_be_used_is_an_error_of_projects_that_name_it(shop: Shop):
    register(shop.site, "[logdriven.engines]\nledger = toys.nowhere:Ledger\n")
    problem = "toys.nowhere:Ledger cannot be used: ModuleNotFoundError: No module named"
    refused = shop.logdriven("validate").stderr
    assert f"logdriven.yaml:3: spark.engine: {problem}" in refused
    assert "package that registers it as logdriven.engines" in refused
    shop.use("auto")
    assert problem in shop.logdriven("validate").stdout
    shop.use("leger")
    assert "ledger" in shop.logdriven("validate").stderr


@pytest.mark.usefixtures("slow")
def test_it_passes_the_conformance_tests(shop: Shop):
    (code,) = re.findall(r"```python\n(# test_ledger.py\n.*?)```", TESTING.read_text(), re.DOTALL)
    (shop.root / "test_ledger.py").write_text(code)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_ledger.py"]
    ended = subprocess.run(
        command,
        cwd=shop.root,
        env=os.environ | {"PYTHONPATH": str(shop.site)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert re.search(r"\d\d passed in", ended.stdout)
