"""A project whose tables are tested by files of tests."""

import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

import pytest

from logdriven_dagster.config.loading import load_project
from logdriven_dagster.plugins.table_tests.files import load_tests
from logdriven_dagster.plugins.table_tests.reports import describe_outcome
from logdriven_dagster.plugins.table_tests.results import Outcome
from logdriven_dagster.plugins.table_tests.running import open_tests

RunTest: TypeAlias = Callable[[str, str], list[str]]


class Bench:
    """A project folder in which tests are written and run."""

    def __init__(self, folder: Path, spark: Any = None) -> None:
        self.folder, self._spark = folder, spark
        self.write("logdriven.yaml", "project: shop\ntimezone: Europe/Berlin")

    def write(self, name: str, text: str) -> None:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(textwrap.dedent(text).strip() + "\n")

    def table(self, text: str) -> None:
        """Write a daily table from 2022 on."""
        text = textwrap.dedent(text).strip()
        name = text.splitlines()[0].removeprefix("table: ")
        self.write(f"tables/{name}.yaml", f"{text}\nperiod: 1 day\n{self._start(text)}")

    @staticmethod
    def _start(text: str) -> str:
        return (
            "" if "default_start" in text or "auto_inc_id" in text else "default_start: 2022-01-01"
        )

    def run(self, *tests: str) -> list[Outcome]:
        """Write tests to files and run them."""
        for number, text in enumerate(tests):
            self.write(f"tests/{number}.yaml", text)
        project = load_project(self.folder)
        loaded = load_tests(project)
        tables = {test.spec.table for test in loaded}
        with open_tests(project, tables, self._spark) as opened:
            return [opened.run(test) for test in loaded]

    def problems(self, *tests: str) -> list[str]:
        """Run tests and return the lines that describe their problems, with short paths."""
        lines = [line for outcome in self.run(*tests) for line in describe_outcome(outcome)]
        return [line.replace(f"{self.folder}/", "") for line in lines]


@pytest.fixture
def bench(tmp_path: Path, spark: Any) -> Bench:
    return Bench(tmp_path, spark)
