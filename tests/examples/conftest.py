"""The examples run as users run them, in a process of their own."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from logdriven_dagster.config import load_project
from logdriven_dagster.engine.targets.iceberg.catalog import open_catalog
from logdriven_dagster.execution.definitions.homes import open_run_log
from logdriven_dagster.runlog.history import logs as history


class Example:
    """A project that an example has run, and what came of it."""

    def __init__(self, folder: Path) -> None:
        self.project = load_project(folder)

    def rows(self, table: str) -> list[dict[str, Any]]:
        """The rows of an Iceberg table, as any reader of Iceberg sees them."""
        rows: list[dict[str, Any]] = (
            open_catalog(self.project).load_table(table).scan().to_arrow().to_pylist()
        )
        return rows

    def query(self, connection: str, text: str) -> list[tuple[Any, ...]]:
        """The result of a query in a database of the project."""
        engine = sa.create_engine(self.project.connection(connection).url)
        with engine.connect() as conn:
            rows = [tuple(row) for row in conn.execute(sa.text(text))]
        engine.dispose()
        return rows

    def log(self, table: str) -> list[dict[str, Any]]:
        """The attempts at a table, oldest first."""
        with open_run_log(self.project).read() as conn:
            return history.list_attempts(conn, table, limit=1000)[::-1]

    def written(self, table: str) -> list[int]:
        """The rows that the newest attempt at each window wrote."""
        newest = [row for row in self.log(table) if row["latest"] == 1]
        assert {row["status"] for row in newest} == {"SUCCESS"}
        return [step["success_count"] for row in newest for step in row["steps"]]


def run_example(name: str, *words: str, **environment: str) -> "subprocess.CompletedProcess[str]":
    """`python -m logdriven_dagster.examples.<name>`, with the environment added to ours."""
    command = [sys.executable, "-m", f"logdriven_dagster.examples.{name}", *words]
    variables = {**os.environ, **environment}
    return subprocess.run(command, env=variables, capture_output=True, text=True, check=False)
