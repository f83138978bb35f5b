"""The migrations make what a new log has, on three databases."""

import ast
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import inspect, text
from sqlalchemy.engine import Connection

from logdriven_dagster.errors import RunLogError
from logdriven_dagster.runlog import RunLog
from logdriven_dagster.runlog.schema import migrations
from logdriven_dagster.runlog.schema.attempts import metadata
from logdriven_dagster.runlog.schema.migrating import migrate, script_directory
from logdriven_dagster.runlog.schema.version import HEAD, VERSION_TABLE
from logdriven_dagster.runlog.schema.views import VIEWS, create_views, drop_views
from tests.runlog.logbook import execute

pytestmark = pytest.mark.usefixtures("real_upgrade")

FROZEN = sorted(Path(migrations.__path__[0], "versions").glob("v*.py"))


def described(conn: Connection) -> dict[str, Any]:
    """Everything that a database says of its tables and views; views by their names."""
    return {**_views(conn), "tables": _TABLES_OF[conn.dialect.name](conn)}


def _views(conn: Connection) -> dict[str, Any]:
    inspector = inspect(conn)
    return {name: inspector.get_view_definition(name) for name in inspector.get_view_names()}


def _of_sqlite(conn: Connection) -> set[str]:
    """The statements that made it, as they were written."""
    query = "SELECT sql FROM sqlite_master WHERE tbl_name NOT LIKE :ours AND sql IS NOT NULL"
    return set(conn.execute(text(query), {"ours": f"{VERSION_TABLE}%"}).scalars())


def _of_mariadb(conn: Connection) -> dict[str, list[str]]:
    """Columns, keys, checks, comments, engine and collation of each table; keys have no order."""

    def key(line: str) -> str:
        return line.strip() if " KEY " in line else ""

    names = [n for n in inspect(conn).get_table_names() if n != VERSION_TABLE]
    found = {n: conn.execute(text(f"SHOW CREATE TABLE {n}")).one()[1] for n in names}
    return {n: sorted(sql.replace(",\n", "\n").splitlines(), key=key) for n, sql in found.items()}


def _of_postgresql(conn: Connection) -> dict[str, Any]:
    """Columns in their order, indexes, constraints, statistics: by the server's own words."""
    queries = {
        "columns": """
            SELECT c.relname, a.attnum, a.attname, format_type(a.atttypid, a.atttypmod),
                   a.attnotnull, a.attidentity, pg_get_expr(d.adbin, d.adrelid),
                   col_description(c.oid, a.attnum)
            FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid
            LEFT JOIN pg_attrdef d ON d.adrelid = c.oid AND d.adnum = a.attnum
            WHERE a.attnum > 0 AND c.relkind = 'r' AND c.relnamespace = 'public'::regnamespace""",
        "indexes": "SELECT tablename, indexdef FROM pg_indexes WHERE schemaname = 'public'",
        "constraints": """
            SELECT conrelid::regclass::text, conname, pg_get_constraintdef(oid)
            FROM pg_constraint WHERE connamespace = 'public'::regnamespace""",
        "statistics": "SELECT 'job_log', pg_get_statisticsobjdef(oid) FROM pg_statistic_ext",
    }
    return {
        what: {tuple(row) for row in conn.execute(text(query)) if row[0] != VERSION_TABLE}
        for what, query in queries.items()
    }


_TABLES_OF: dict[str, Callable[[Connection], Any]] = {
    "sqlite": _of_sqlite,
    "mysql": _of_mariadb,
    "postgresql": _of_postgresql,
    "mariadb": _of_mariadb,
}


@pytest.mark.sampled
def test_the_migrations_make_the_schema_of_a_new_log(log: RunLog):
    assert script_directory().get_current_head() == HEAD
    with log.engine.connect() as conn, conn.begin():
        new = described(conn)
        assert set(new) == {"tables", *VIEWS}
        assert all(new.values())
        drop_views(conn)
        metadata.drop_all(conn)
        conn.execute(text(f"DROP TABLE {VERSION_TABLE}"))
        migrate(conn)
        create_views(conn)
        assert described(conn) == new


@pytest.mark.parametrize("migration", FROZEN, ids=lambda path: path.stem)
def test_a_migration_imports_nothing_that_may_change(migration: Path):
    tree = ast.parse(migration.read_text())
    imported = [node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    imported += [
        n.name for node in ast.walk(tree) if isinstance(node, ast.Import) for n in node.names
    ]
    assert {str(name).split(".")[0] for name in imported} <= {"alembic", "sqlalchemy", "typing"}


@pytest.mark.sampled
@pytest.mark.parametrize("version", ["0005", "9999"])
def test_a_log_of_an_unknown_schema_is_refused(log: RunLog, version: str):
    execute(log, f"UPDATE {VERSION_TABLE} SET version_num = '{version}'")
    with pytest.raises(RunLogError, match=f"{version} is unknown here.*upgrade logdriven_dagster"):
        RunLog.open(log.engine.url)
