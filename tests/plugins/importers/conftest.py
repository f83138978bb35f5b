"""A project to import into, the command line, and Spark to run what was written."""

import os
import textwrap
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
import yaml

from logdriven_dagster.config import load_project
from logdriven_dagster.execution.events import WindowFailed, WindowSucceeded
from tests.builders import at
from tests.cli.conftest import CommandLine, logdriven
from tests.execution.conftest import World

__all__ = ["logdriven"]

NOW = at("2022-01-10 12:00")


class Folder(World):
    """A project folder without tables, whose connection `shop` is a database for the test."""

    def __init__(self, root: Path, url: sa.URL | None = None) -> None:
        self.root = root
        self.url = url or sa.make_url(f"sqlite:///{root / 'shop.db'}")
        self.configure()

    def configure(self, **settings: Any) -> None:
        shop = {"shop": {"url": self.url_text}}
        values = {"project": "brought", "connections": shop, **settings}
        self.write("logdriven.yaml", yaml.safe_dump(values))

    @property
    def url_text(self) -> str:
        """The database's URL as files hold it, its password in the environment."""
        text = self.url.render_as_string(hide_password=False)
        if secret := self.url.password:
            os.environ["SHOP_PASSWORD"] = secret
            text = text.replace(f":{secret}@", ":${env:SHOP_PASSWORD}@")
        return text

    def execute(self, *statements: str) -> None:
        """Run statements in the database."""
        engine = sa.create_engine(self.url, poolclass=sa.NullPool)
        with engine.begin() as conn:
            for statement in statements:
                conn.exec_driver_sql(textwrap.dedent(statement))

    def text(self, path: str) -> str:
        return (self.root / path).read_text()

    def values(self, path: str) -> dict[str, Any]:
        """A file as it would be read, dates as texts."""
        values: dict[str, Any] = yaml.load(self.text(path), Loader=yaml.BaseLoader)
        return values

    def files(self) -> list[str]:
        """All table and job files."""
        found = [*(self.root / "tables").rglob("*"), *(self.root / "jobs").rglob("*")]
        return sorted(str(f.relative_to(self.root)) for f in found if f.is_file())

    def run_all(self, *, days: int = 0, **options: Any) -> None:
        """Catch up on 2022-01-10 or some days later; everything succeeds."""
        ended = self.catch_up(now=NOW + timedelta(days=days), **options)
        failed = [event.error for event in ended if isinstance(event, WindowFailed)]
        assert not failed
        assert any(isinstance(event, WindowSucceeded) for event in ended)

    @property
    def tables(self) -> list[str]:
        return sorted(load_project(self.root).tables)


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    """Its database is SQLite."""
    return Folder(tmp_path)


@pytest.fixture
def server_folder(tmp_path: Path, database_url: sa.URL) -> Folder:
    """Its database is SQLite, PostgreSQL and MariaDB in turn."""
    return Folder(tmp_path, database_url)


@pytest.fixture
def postgres_folder(tmp_path: Path, postgres_url: sa.URL) -> Folder:
    """Its database is PostgreSQL."""
    return Folder(tmp_path, postgres_url)


@pytest.fixture
def mariadb_folder(tmp_path: Path, mariadb_url: sa.URL) -> Folder:
    """Its database is MariaDB."""
    return Folder(tmp_path, mariadb_url)


@pytest.fixture
def command(logdriven: CommandLine, tmp_path: Path) -> Callable[..., Any]:
    """The command line in the project folder, on 2022-01-10."""

    def run(name: str, *arguments: object) -> Any:
        clock = () if name == "import-sharpetl" else ("--now", "2022-01-10")
        return logdriven(name, "--project", tmp_path, *clock, *arguments)

    return run
