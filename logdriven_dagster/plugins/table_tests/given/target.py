"""The target of a stand-in for a table in a test: rows that are given, and never written."""

from collections.abc import Iterator
from typing import Literal

from logdriven_dagster.config.models.types.targets import Target


class GivenTarget(Target):
    """The rows of an upstream table in a test of a table."""

    store = "logdriven_dagster.plugins.table_tests.given.store:GivenTable"

    type: Literal["given"] = "given"
    mode: str
    path: str
    """The Parquet file with the rows."""

    def place(self, table: str) -> str:
        return f"given {table.lower()}"

    def uses(self, table: str) -> Iterator[tuple[str, str]]:
        yield "target", table
