"""Moving the rows of a staging table into the target, and proving that they arrived."""

from typing import TYPE_CHECKING

from logdriven_dagster.config.models.types.jdbc import JdbcTarget
from logdriven_dagster.engine.databases.declarations import MARIADB
from logdriven_dagster.engine.targets.jdbc.moves import list_moves
from logdriven_dagster.engine.targets.jdbc.proof import Proof
from logdriven_dagster.engine.targets.jdbc.rejections import (
    explain_rejections,
    name_rejected_column,
)
from logdriven_dagster.engine.targets.jdbc.replaced_rows import has_instants, match_replaced_rows
from logdriven_dagster.engine.targets.jdbc.upsert import select_upserted_rows, upsert
from logdriven_dagster.model.runs import Merged, WindowRun

if TYPE_CHECKING:
    from sqlalchemy import Connection, Table


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
        TerminalStepError: The database rejects rows, or the target does not hold them afterwards as
            they were staged.
    """
    from sqlalchemy import delete, insert, select, text

    backend = conn.dialect.name
    if backend in MARIADB and has_instants(target):
        conn.execute(text("SET time_zone = '+00:00'"))  # the time zone of the bounds
    source, found = staging.alias("staged"), target.alias("published")
    moves = list_moves(conn, source, target)
    merged = None
    with (
        explain_rejections(config.table),
        name_rejected_column(conn, moves, source, config.table),
    ):
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
    with explain_rejections(config.table):  # of deferred constraints and triggers
        Proof(conn, moves, (source, staged), (found, published)).require(config.table)
    return merged
