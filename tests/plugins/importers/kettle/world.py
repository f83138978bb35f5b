"""A small Kettle: its configuration tables, and transformations as files."""

from collections.abc import Callable
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET
from xml.sax.saxutils import escape

import sqlalchemy as sa

from logdriven_dagster.plugins.importers.kettle.rows.models import Reading, RowStep
from logdriven_dagster.plugins.importers.kettle.rows.queries import QUERIES
from tests.plugins.importers.conftest import Folder

Command = Callable[..., Any]
ARGUMENTS = ("--connection", "shop", "--repository")
TABLES = {
    "t_etl_kjb_cfg": "kjb_name VARCHAR(255), kjb_type VARCHAR(20), is_enabled CHAR(1), retries INT",
    "t_etl_std_ktr_cfg": "kjb_name VARCHAR(255), ktr_name VARCHAR(255), ktr_path VARCHAR(255), "
    "tbl_name VARCHAR(255), is_enabled CHAR(1)",
    "t_etl_std_dep_cfg": "tbl_to VARCHAR(255), tbl_from VARCHAR(255), tbl_from_is_etl CHAR(1)",
    "t_etl_maint_ktr_cfg": "kjb_name VARCHAR(255), ktr_name VARCHAR(255), ktr_path VARCHAR(255), "
    "tbl_name VARCHAR(255), is_enabled CHAR(1), exec_order INT",
}


class Kettle:
    """What people have who follow the guide."""

    def __init__(self, folder: Folder) -> None:
        self.folder = folder
        self.repository = folder.root / "repository"
        self.repository.mkdir()
        for name, columns in TABLES.items():
            folder.execute(f"CREATE TABLE {name} (cfg_id INT NOT NULL, {columns})")
        self._count = 0

    def _insert(self, table: str, *values: Any) -> None:
        self._count += 1
        texts = ", ".join(repr(value) for value in (self._count, *values))
        self.folder.execute(f"INSERT INTO {table} VALUES ({texts})")

    def job(
        self, name: str, kind: str = "STANDARD", *, enabled: str = "Y", retries: int = 3
    ) -> None:
        self._insert("t_etl_kjb_cfg", name, kind, enabled, retries)

    def table(self, job: str, table: str, *, enabled: str = "Y", ktr: str | None = None) -> None:
        self._insert("t_etl_std_ktr_cfg", job, ktr or f"ktr_{table}", "/etl", table, enabled)

    def depends(self, to: str, upstream: str, *, is_etl: str = "Y") -> None:
        self._insert("t_etl_std_dep_cfg", to, upstream, is_etl)

    def upkeep(self, job: str, ktr: str, order: int, *, enabled: str = "Y") -> None:
        self._insert("t_etl_maint_ktr_cfg", job, ktr, "/etl", "-", enabled, order)

    def ktr(self, name: str, *steps: str, hops: tuple[tuple[str, str], ...] = ()) -> Path:
        """Write a transformation; its connection `KettleShop` is the folder's database."""
        url = self.folder.url
        connection = (
            f"<connection><name>KettleShop</name><type>{self.kind}</type>"
            f"<server>{url.host or ''}</server><port>{url.port or ''}</port>"
            f"<database>{url.database}</database><password>Encrypted 2be98afc</password>"
            "</connection>"
        )
        order = "".join(
            f"<hop><from>{a}</from><to>{b}</to><enabled>Y</enabled></hop>" for a, b in hops
        )
        path = self.repository / "etl" / f"{name}.ktr"
        path.parent.mkdir(exist_ok=True)
        path.write_text(
            f"<?xml version='1.0' encoding='UTF-8'?><transformation><info><name>{name}</name>"
            f"</info>{connection}<order>{order}</order>{''.join(steps)}</transformation>"
        )
        return path

    @property
    def kind(self) -> str:
        return {"sqlite": "SQLITE", "postgresql": "POSTGRESQL"}.get(
            self.folder.url.get_backend_name(), "MYSQL"
        )

    def copies(self, name: str, query: str, table: str, *, before: str = "", **output: str) -> Path:
        """The guide's template: a script, a table input, a table output and its metrics."""
        steps = [
            step("read", "TableInput", sql=query),
            step("write", "TableOutput", table=table, **{"truncate": "Y", **output}),
            step("metrics", "StepsMetrics"),
            step("row_count", "SetVariable"),
        ]
        if before:
            steps.insert(0, step("script", "ExecSQL", sql=before))
        return self.ktr(name, *steps, hops=(("read", "write"), ("metrics", "row_count")))


SPOON: dict[str, dict[str, str]] = {
    "TableInput": {"variables_active": "Y"},
    "ExecSQL": {"replace_variables": "Y"},
}
"""What the guide switches on in its steps."""


def step(name: str, kind: str, connection: str = "KettleShop", **fields: str) -> str:
    """A step of a transformation as Spoon writes it; `below_*` fields are XML already."""
    inner = "".join(
        value if key.startswith("below") else f"<{key}>{escape(value)}</{key}>"
        for key, value in {**SPOON.get(kind, {}), **fields}.items()
    )
    return (
        f"<step><name>{name}</name><type>{kind}</type><connection>{connection}</connection>"
        f"{inner}<GUI><xloc>0</xloc><yloc>0</yloc><draw>Y</draw></GUI></step>"
    )


def fields(*given: dict[str, str], group: str = "fields", tag: str = "field") -> str:
    """Fields of a step as Spoon writes them."""
    inner = "".join(
        f"<{tag}>{''.join(f'<{k}>{escape(v)}</{k}>' for k, v in each.items())}</{tag}>"
        for each in given
    )
    return f"<{group}>{inner}</{group}>"


def rows(url: sa.URL, query: str) -> list[tuple[Any, ...]]:
    engine = sa.create_engine(url, poolclass=sa.NullPool)
    with engine.connect() as conn:
        return [tuple(row) for row in conn.exec_driver_sql(query)]


PEOPLE = "VALUES (1, 'Ann', 10D), (2, '', 20D), (3, NULL, NULL), (4, 'ann', 0D) AS t(id, name, x)"


def row_step(kind: str, xml: str, *sources: str) -> RowStep:
    element = ET.fromstring(f"<step>{xml}</step>")
    return RowStep("it", kind, element, sources or ("people",))


def query(step: RowStep, *before: RowStep, ignores_case: bool = False, **relations: str) -> str:
    orders = {name: [] for name in step.sources}
    named = {name: f"(SELECT * FROM {text})" for name, text in relations.items()}
    named.setdefault("people", f"(SELECT * FROM {PEOPLE})")
    reading = Reading(named, orders, ignores_case)
    return QUERIES[step.kind](step, reading, {each.name: each for each in (*before, step)})


def maps(folder: Folder) -> tuple[str, ...]:
    """SQLite has no host by which its connection could be known."""
    return ("--map", "KettleShop=shop") if folder.url.get_backend_name() == "sqlite" else ()
