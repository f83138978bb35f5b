"""Alembic, driven from code, so that an installed wheel needs no ini file."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from alembic import command
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import text
from sqlalchemy.engine import Connection

from logdriven_dagster.errors import RunLogError
from logdriven_dagster.runlog.schema import definitions as definition_schema  # noqa: F401 - their tables
from logdriven_dagster.runlog.schema import observations as observation_schema  # noqa: F401 - their tables
from logdriven_dagster.runlog.schema.attempts import metadata
from logdriven_dagster.runlog.schema.version import VERSION_TABLE
from logdriven_dagster.runlog.schema.views import create_views, drop_views

_FOLDER = Path(__file__).parent / "migrations"
_LOCK = 5_136_201
_LOCK_SECONDS = 60


def script_directory() -> ScriptDirectory:
    """Return the migrations that come with the package."""
    return ScriptDirectory.from_config(_config())


def upgrade(conn: Connection) -> None:
    """Create or migrate the schema, one process at a time.

    `conn` is outside a transaction. A new log gets the current schema in one go, and continues an
    interrupted start on MariaDB. Raises RunLogError for an unknown schema.
    """
    with _one_at_a_time(conn), _references_unchecked(conn), conn.begin():
        if conn.dialect.name == "postgresql":
            conn.execute(text("SET LOCAL lock_timeout = 0"))  # however long another one migrates
            conn.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": _LOCK})
        context = MigrationContext.configure(conn, opts={"version_table": VERSION_TABLE})
        version = context.get_current_revision()
        drop_views(conn)  # they would block changes of their tables
        if version is None:
            metadata.create_all(conn)
            context.stamp(script_directory(), "head")
        else:
            _refuse_unknown(version)
            config = _config()
            config.attributes["connection"] = conn
            command.upgrade(config, "head")
        create_views(conn)


def _refuse_unknown(version: str) -> None:
    if version not in {script.revision for script in script_directory().walk_revisions()}:
        raise RunLogError(
            f"the run log has the unknown schema version {version}: it was written by a "
            "newer version, or by one before the first release; upgrade "
            "logdriven_dagster, or use a new database"
        )


def _config() -> Config:
    config = Config()
    config.set_main_option("script_location", str(_FOLDER))
    return config


@contextmanager
def _references_unchecked(conn: Connection) -> Iterator[None]:
    """Disable foreign keys: SQLite changes a table by making another one, which they forbid."""
    if conn.dialect.name != "sqlite":
        yield
        return
    driver = conn.connection.driver_connection
    assert driver is not None
    driver.execute("PRAGMA foreign_keys = OFF")  # has no effect inside a transaction
    try:
        yield
    finally:
        driver.execute("PRAGMA foreign_keys = ON")


@contextmanager
def _one_at_a_time(conn: Connection) -> Iterator[None]:
    """Take a session lock on MariaDB and MySQL, whose schema changes end every transaction.

    The others lock within the transaction: SQLite at BEGIN, PostgreSQL by an advisory lock.
    """
    if conn.dialect.name not in ("mysql", "mariadb"):
        yield
        return
    name = f"logdriven_{_LOCK}"
    wanted = {"name": name, "wait": _LOCK_SECONDS}
    if conn.execute(text("SELECT GET_LOCK(:name, :wait)"), wanted).scalar() != 1:
        raise RunLogError("another process is migrating the run log; try again")
    conn.commit()
    try:
        yield
    finally:
        conn.execute(text("SELECT RELEASE_LOCK(:name)"), {"name": name})
        conn.commit()
