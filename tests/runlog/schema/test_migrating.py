"""The schema of new logs, and how the first migration will bring older ones to it."""

import ast
from pathlib import Path

import pytest
from sqlalchemy import inspect

from logdriven_dagster.errors import RunLogError
from logdriven_dagster.runlog import RunLog
from logdriven_dagster.runlog.schema import migrating, migrations
from logdriven_dagster.runlog.schema.attempts import metadata
from logdriven_dagster.runlog.schema.migrating import script_directory
from logdriven_dagster.runlog.schema.version import HEAD, VERSION_TABLE
from logdriven_dagster.runlog.schema.views import VIEWS
from tests.builders import day
from tests.runlog.logbook import execute, rows, succeed

pytestmark = pytest.mark.usefixtures("real_upgrade")

FOLDER = Path(migrations.__path__[0])
MIGRATIONS = sorted((FOLDER / "versions").glob("v*.py"))
NEXT = """
import sqlalchemy as sa
from alembic import op

revision, down_revision = "9999", "{head}"


def upgrade() -> None:
    with op.batch_alter_table("job_log") as table:
        table.add_column(sa.Column("shade", sa.String(8), server_default="blue"))
        table.alter_column("job_period", existing_type=sa.Integer, nullable=True)
"""


def test_a_new_log_has_every_table_and_view_and_the_newest_version(log: RunLog):
    with log.read() as conn:
        found = inspect(conn)
        assert set(found.get_table_names()) == {*metadata.tables, VERSION_TABLE}
        assert set(found.get_view_names()) == set(VIEWS)
    assert script_directory().get_current_head() == HEAD
    assert rows(log, f"SELECT version_num FROM {VERSION_TABLE}") == [{"version_num": HEAD}]


@pytest.mark.sampled
def test_the_next_migration_keeps_rows_and_views(
    log: RunLog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """SQLite makes `job_log` again for it, which rows of `step_log` name."""
    succeed(log, day(1))
    (tmp_path / "versions").mkdir()
    for file in (FOLDER / "env.py", *MIGRATIONS):
        (tmp_path / file.relative_to(FOLDER)).write_text(file.read_text())
    (tmp_path / "versions" / "v9999.py").write_text(NEXT.format(head=HEAD))
    monkeypatch.setattr(migrating, "_FOLDER", tmp_path)
    log.upgrade()
    assert rows(log, "SELECT job_name, shade FROM v_window_log") == [
        {"job_name": "ods.t", "shade": "blue"}
    ]
    assert len(rows(log, "SELECT * FROM step_log")) == 1
    assert rows(log, f"SELECT version_num FROM {VERSION_TABLE}") == [{"version_num": "9999"}]


@pytest.mark.parametrize("migration", MIGRATIONS, ids=lambda path: path.stem)
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
    with pytest.raises(RunLogError, match=f"schema version {version}.*upgrade logdriven_dagster"):
        RunLog.open(log.engine.url)
