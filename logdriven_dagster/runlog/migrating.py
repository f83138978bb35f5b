"""Alembic, driven from code, so that an installed wheel needs no ini file."""

from pathlib import Path

from alembic import command
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from alembic.util import CommandError
from sqlalchemy import text
from sqlalchemy.engine import Connection

from logdriven_dagster.errors import RunLogError
from logdriven_dagster.runlog.store import VERSION_TABLE

_LOCK = 5_136_201
_LOCK_SECONDS = 60


def script_directory() -> ScriptDirectory:
    """The packaged migrations."""
    return ScriptDirectory.from_config(_config())


def upgrade(conn: Connection) -> None:
    """Run the missing migrations while no other process does; RunLogError for a newer schema."""
    _lock(conn)
    config = _config()
    config.attributes["connection"] = conn
    current = MigrationContext.configure(conn, opts={"version_table": VERSION_TABLE})
    version = current.get_current_revision()
    known = {script.revision for script in script_directory().walk_revisions()}
    if version and version not in known:
        fix = "upgrade logdriven_dagster"
        raise RunLogError(f"the run log's schema {version} is newer than this version; {fix}")
    try:
        command.upgrade(config, "head")
    except CommandError as error:
        raise RunLogError(f"the run log cannot be migrated: {error}") from None
    finally:
        _unlock(conn)


def _config() -> Config:
    config = Config()
    config.set_main_option("script_location", str(Path(__file__).parent / "migrations"))
    return config


def _lock(conn: Connection) -> None:
    """SQLite's own write lock is held already."""
    match conn.dialect.name:
        case "postgresql":
            conn.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": _LOCK})
        case "mysql" | "mariadb":
            name, wait = f"logdriven_{_LOCK}", _LOCK_SECONDS
            conn.execute(text("SELECT GET_LOCK(:name, :wait)"), {"name": name, "wait": wait})


def _unlock(conn: Connection) -> None:
    if conn.dialect.name in ("mysql", "mariadb"):
        conn.execute(text("SELECT RELEASE_LOCK(:name)"), {"name": f"logdriven_{_LOCK}"})
