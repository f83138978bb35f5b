"""Moving the rows of a staging table into the target, and proving that they arrived."""

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import TYPE_CHECKING

from logdriven_dagster.config.driver_errors import get_driver_message
from logdriven_dagster.config.models.types.jdbc import JdbcTarget
from logdriven_dagster.engine.databases.declarations import MARIADB
from logdriven_dagster.engine.databases.tables import plain_quoted
from logdriven_dagster.engine.targets.jdbc.moves import Move, list_moves
from logdriven_dagster.engine.targets.jdbc.proof import Proof
from logdriven_dagster.engine.targets.jdbc.replaced_rows import has_moments, match_replaced_rows
from logdriven_dagster.engine.targets.jdbc.upsert import select_upserted_rows, upsert
from logdriven_dagster.errors import TerminalStepError
from logdriven_dagster.model.runs import Merged, WindowRun

if TYPE_CHECKING:
    from sqlalchemy import Connection, FromClause, Table

_PROBE = "logdriven_probe"
_BAD_DATA = "22"
"""The class of PostgreSQL's error codes for values that a type rejects."""
_TRUNCATED = 1292
"""MariaDB's error code for a text that is not a number."""


def move_rows(
    conn: "Connection", staging: "Table", target: "Table", run: WindowRun, config: JdbcTarget
) -> Merged | None:
    """Move the staged rows into the target; return the counts of an upsert.

    Args:
        conn: The publishing transaction.
        staging: The staging table of the window.
        target: The target, which has all columns of the staging table.
        run: The attempt that publishes the rows.
        config: The write mode and key.

    Raises:
        TerminalStepError: The target does not hold the rows afterwards as they were staged.
    """
    from sqlalchemy import delete, insert, select, text

    backend = conn.dialect.name
    if backend in MARIADB and has_moments(target):
        conn.execute(text("SET time_zone = '+00:00'"))  # the time zone of the bounds
    source, found = staging.alias("staged"), target.alias("published")
    moves = list_moves(conn, source, target)
    merged = None
    with _columns_named(conn, moves, source, config.table):
        if config.write_mode.merges_by_key:
            merged = upsert(conn, source, target, moves, key=config.key, window=run.window)
            staged, published = select_upserted_rows(
                source, found, moves, key=config.key, window=run.window
            )
        else:
            conn.execute(
                delete(target).where(*match_replaced_rows(target, run.window, config, backend))
            )
            values = select(*(move.value for move in moves)).select_from(source)
            conn.execute(insert(target).from_select([move.target for move in moves], values))
            staged = select().select_from(source)
            replaced = match_replaced_rows(found, run.window, config, backend)
            published = select().select_from(found).where(*replaced)
    Proof(conn, moves, (source, staged), (found, published)).require(config.table)
    return merged


@contextmanager
def _columns_named(
    conn: "Connection", moves: Sequence[Move], source: "FromClause", table: str
) -> Iterator[None]:
    """Name the column whose values the database rejects, if its own message does not."""
    from sqlalchemy.exc import DBAPIError

    try:
        with _savepoint(conn):
            yield
    except DBAPIError as error:
        state = str(getattr(error.orig, "sqlstate", ""))
        if not state.startswith(_BAD_DATA) and error.orig.args[:1] != (_TRUNCATED,):  # type: ignore[union-attr]
            raise
        for move in moves:
            if words := _refusal(conn, move, source):
                raise TerminalStepError(
                    f"{table}: column {move.target.name} ({move.declared}): {words}. Nothing was "
                    "written; convert the value in the step's SQL, or change the column"
                ) from None
        raise


def _refusal(conn: "Connection", move: Move, source: "FromClause") -> str | None:
    """Return the database's error on the staged values of one column; None if it accepts them."""
    from sqlalchemy import Column, MetaData, Table, insert, select, text
    from sqlalchemy.exc import DBAPIError

    if move.is_proven:
        return None
    column, of = plain_quoted(conn, move.target.name), move.target.table
    like = f"SELECT {column} FROM {plain_quoted(conn, of.schema, of.name)} WHERE false"  # noqa: S608
    probe = Table(_PROBE, MetaData(), Column(move.target.name, move.target.type, quote=True))
    conn.execute(text(f"CREATE TEMPORARY TABLE {_PROBE} AS {like}".replace(":", "\\:")))
    values = select(move.value).select_from(source)
    try:
        with _savepoint(conn):
            conn.execute(insert(probe).from_select(list(probe.columns), values))
    except DBAPIError as error:
        return get_driver_message(error.orig)
    finally:
        # Without TEMPORARY, MariaDB commits the transaction.
        word = "TEMPORARY " if conn.dialect.name in MARIADB else ""
        conn.execute(text(f"DROP {word}TABLE {_PROBE}"))
    return None


def _savepoint(conn: "Connection") -> AbstractContextManager[object]:
    """Return a savepoint where a failed statement would end the transaction."""
    return conn.begin_nested() if conn.dialect.name == "postgresql" else nullcontext()
