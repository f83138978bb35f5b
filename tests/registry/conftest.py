"""A small project in a folder, its registry on each kind of database in turn, no Spark."""

import textwrap
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import text
from sqlalchemy.engine import URL

from logdriven_dagster.config.derived.exchange import format_json, format_yaml, parse_export
from logdriven_dagster.execution.definitions.changes import ProjectRegistry, rollback, set_settings
from logdriven_dagster.execution.definitions.exchange import export, import_export
from logdriven_dagster.execution.definitions.registering import (
    Registered,
    author,
    consult,
    register,
)
from logdriven_dagster.model.definitions import Kind, VersionChange, build_code
from logdriven_dagster.runlog import RunLog
from logdriven_dagster.runlog.definitions import registry as definitions

ORDERS = """
    table: ods.orders
    period: 1 day
    default_start: 2022-01-01
    retries: 1
    steps:
      - step: load
        sql: SELECT 1 AS one
        target: {type: iceberg}
"""
SALES = """
    table: dws.sales
    period: 1 day
    default_start: 2022-01-01
    depends_on: [ods.orders]
    steps:
      - step: sum
        sql_file: sales.sql
        target: {type: iceberg}
"""
NIGHTLY = """
    job: nightly
    tables: [dws.sales]
    relations:
      - {from: ods.orders, to: dws.sales, condition: always}
"""
UPKEEP = """
    job: upkeep
    type: maintenance
    steps:
      - {exec_order: 1, step: first, upkeep: clean}
      - {exec_order: 2, step: second, upkeep: archive_log, older_than: 30 days}
"""


class Shop:
    """A project folder and what the registry says of it."""

    def __init__(self, root: Path, url: URL) -> None:
        self.root, self.url = root, url
        self.write("logdriven.yaml", "project: shop")
        self.write("tables/orders.yaml", ORDERS)

    def write(self, path: str, content: str) -> None:
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(textwrap.dedent(content).strip() + "\n")

    def edit(self, path: str, before: str, after: str) -> None:
        file = self.root / path
        content = file.read_text()
        assert before in content
        file.write_text(content.replace(before, after))

    def delete(self, path: str) -> None:
        (self.root / path).unlink()

    def with_sales(self) -> "Shop":
        """Two tables, a standard job with a relation, a maintenance job."""
        self.write("tables/sales.yaml", SALES)
        self.write("tables/sales.sql", "SELECT count(*) AS n\nFROM ods.orders")
        self.write("jobs/nightly.yaml", NIGHTLY)
        self.write("jobs/upkeep.yaml", UPKEEP)
        return self

    def apply(self) -> list[tuple[str, str, int]]:
        """Name, operation and version of what was written."""
        return summarize(register(self.root).changes)

    def consulted(self) -> Registered:
        return consult(self.root)

    def set(self, name: str, **fields: str | None) -> list[VersionChange]:
        return set_settings(self.root, {name: fields}, author("set", "ann"))

    def rollback(self, name: str, version: int) -> list[tuple[str, str, int]]:
        return summarize(rollback(self.root, name, version, "ann").changes)

    def export(self, *, history: bool = False) -> str:
        return format_yaml(export(self.root, history=history))

    def exported_json(self) -> str:
        return format_json(export(self.root))

    def import_(self, content: str) -> list[tuple[str, str, int]]:
        found = parse_export(Path("shop.yaml"), content)
        by = author("import of shop.yaml", "ann")
        return summarize(import_export(self.root, found, by).changes)

    @property
    def registry(self) -> ProjectRegistry:
        return ProjectRegistry("shop", RunLog.open(self.url))

    def versions(self, name: str) -> list[tuple[int, str]]:
        return [(v.version, v.operation.value) for v in self.registry.versions(name)]

    def in_force(self, name: str = "ods.orders") -> Mapping[str, Any]:
        """The settings in force of a table, and its version."""
        return self.registry.run_log.ask(
            lambda conn: definitions.read_settings(conn, "shop", Kind.TABLE, [name])
        )[name]

    def rows(self, table: str) -> list[dict[str, Any]]:
        with RunLog.open(self.url).read() as conn:
            found = conn.execute(text(f"SELECT * FROM {table} ORDER BY code"))
            return [dict(row._mapping) for row in found]

    def sql(self, statement: str) -> None:
        """As an operator with an SQL client."""
        with RunLog.open(self.url).begin() as conn:
            conn.execute(text(statement))

    def code(self, kind: Kind, name: str) -> str:
        return build_code("shop", kind, name)

    def elsewhere(self, url: URL, monkeypatch: pytest.MonkeyPatch) -> "Shop":
        """The same folder with another run log."""
        monkeypatch.setenv("LOGDRIVEN_RUN_LOG", url.render_as_string(hide_password=False))
        other = Shop.__new__(Shop)
        other.root, other.url = self.root, url
        return other


def summarize(changes: Any) -> list[tuple[str, str, int]]:
    return [(c.name, c.operation.value, c.version) for c in changes]


@pytest.fixture
def shop(database_url: URL, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Shop:
    monkeypatch.setenv("LOGDRIVEN_RUN_LOG", database_url.render_as_string(hide_password=False))
    monkeypatch.delenv("LOGDRIVEN_OPERATOR", raising=False)
    return Shop(tmp_path / "shop", database_url)


@pytest.fixture
def lite_shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Shop:
    """The same on SQLite alone, for rules that have nothing to do with the database."""
    monkeypatch.delenv("LOGDRIVEN_RUN_LOG", raising=False)
    root = tmp_path / "shop"
    from sqlalchemy.engine import make_url

    return Shop(root, make_url(f"sqlite:///{root}/.logdriven/run_log.db"))
