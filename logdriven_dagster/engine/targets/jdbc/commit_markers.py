"""The table `logdriven_commit` next to JDBC targets: publications and fencing tokens."""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from logdriven_dagster.engine.databases.tables import TRANSACTIONAL
from logdriven_dagster.engine.targets.store import StagedRows, is_newer
from logdriven_dagster.model.runs import Merged, WindowRun
from logdriven_dagster.model.windows import TimeWindow

if TYPE_CHECKING:
    from sqlalchemy import ColumnElement, Connection, Engine, Row, Table

MARKERS = "logdriven_commit"
NOTHING_YET = ""
"""The `staging` value of a window that was fenced before any publication."""


@contextmanager
def publishing_transaction(engine: "Engine", lease: timedelta) -> "Iterator[Connection]":
    """Open a transaction whose locks the server releases if its runner is frozen for a lease.

    It waits up to a minute longer for locks of other transactions. SQLite has no limit for a frozen
    process: others wait there until it continues or ends.
    """
    from sqlalchemy import text

    idle = max(round(lease.total_seconds()), 1)
    lock = idle + 60
    with engine.begin() as conn:
        if engine.dialect.name == "postgresql":
            conn.execute(text(f"SET LOCAL idle_in_transaction_session_timeout = '{idle}s'"))
            conn.execute(text(f"SET LOCAL lock_timeout = '{lock}s'"))
        elif engine.dialect.name in ("mysql", "mariadb"):
            locks = f"innodb_lock_wait_timeout = {lock}, SESSION lock_wait_timeout = {lock}"
            of_mariadb = f"/*M!, SESSION idle_transaction_timeout = {idle} */"
            # Otherwise a server may truncate texts and numbers silently.
            strict = "SESSION sql_mode = CONCAT(@@sql_mode, ',STRICT_ALL_TABLES')"
            conn.execute(text(f"SET SESSION {locks}, {strict} {of_mariadb}"))
        yield conn


def markers_in(schema: str | None) -> "Table":
    """Define `logdriven_commit`: one row per window of each target, with its publication."""
    from sqlalchemy import BigInteger, Column, DateTime, MetaData, String, Table

    return Table(
        MARKERS,
        MetaData(),
        Column("target_table", String(128), primary_key=True),
        Column("data_range_start", String(32), primary_key=True),
        Column("data_range_end", String(32), nullable=False),
        Column("table_name", String(128), nullable=False),
        Column("job_id", BigInteger, nullable=False),
        Column("staging", String(64), nullable=False),
        Column("row_count", BigInteger),
        Column("committed_at", DateTime, nullable=False),
        Column("fencing_token", BigInteger),
        Column("inserted_count", BigInteger),
        Column("updated_count", BigInteger),
        schema=schema,
        **TRANSACTIONAL,
    )


def grow_markers(engine: "Engine", markers: "Table") -> None:
    """Create the table of markers, or add new columns to one of an older version."""
    from sqlalchemy import inspect, text

    markers.create(engine, checkfirst=True)
    known = {column["name"] for column in inspect(engine).get_columns(markers.name, markers.schema)}
    table = engine.dialect.identifier_preparer.format_table(markers)
    for name in ("fencing_token", "inserted_count", "updated_count"):
        if name not in known:
            with engine.begin() as conn:
                conn.execute(text(f"ALTER TABLE {table} ADD COLUMN {name} BIGINT"))


def publication(conn: "Connection", markers: "Table", staged: StagedRows) -> "Row[Any] | None":
    """Return the marker of these rows' publication; None if they were not published."""
    from sqlalchemy import select

    return conn.execute(select(markers).where(markers.c.staging == staged.location)).first()


def get_merge_counts(marker: "Row[Any]") -> Merged | None:
    """Return the counts of the upsert that wrote a marker; None for other modes."""
    if marker.inserted_count is None:
        return None
    return Merged(marker.inserted_count, marker.updated_count)


def has_newer(conn: "Connection", markers: "Table", target: str, window: TimeWindow) -> bool:
    """Return True if a newer window was published to this target."""
    from sqlalchemy import select

    published = (markers.c.target_table == target) & (markers.c.staging != NOTHING_YET)
    starts = select(markers.c.data_range_start).where(published)
    return any(is_newer(start, window) for start in conn.scalars(starts))


def lock_target(conn: "Connection", markers: "Table", target: str) -> None:
    """Serialize publications to one target until the end of the transaction.

    Two concurrent upserts would not see each other's keys.
    """
    from sqlalchemy import func, insert, update
    from sqlalchemy.exc import IntegrityError

    whole = {"target_table": target, "data_range_start": NOTHING_YET}
    mine = [markers.c[name] == value for name, value in whole.items()]
    lock = update(markers).where(*mine).values(committed_at=func.current_timestamp())
    if conn.execute(lock).rowcount:
        return
    values = {"data_range_end": "", "table_name": "", "job_id": 0, "staging": NOTHING_YET}
    with suppress(IntegrityError), conn.begin_nested():
        conn.execute(
            insert(markers).values(**whole, **values, committed_at=func.current_timestamp())
        )
        return
    conn.execute(lock)


def take(conn: "Connection", markers: "Table", run: WindowRun, target: str) -> None:
    """Lock the window's marker under the attempt's token until the end of the transaction.

    Raises AttemptLostError if the marker has a greater token: a newer attempt has taken it.
    """
    from sqlalchemy import func, insert, select, update
    from sqlalchemy.exc import IntegrityError

    mine = _of_window(markers, target, run.window)
    known = func.coalesce(markers.c.fencing_token, 0)
    taken = update(markers).where(*mine, known <= run.fencing_token)
    values = {"fencing_token": run.fencing_token}
    if conn.execute(taken.values(**values)).rowcount:
        return
    new = insert(markers).values(
        target_table=target,
        data_range_start=run.window.start_text,
        data_range_end=run.window.end_text,
        table_name=run.table,
        job_id=run.job_id,
        staging=NOTHING_YET,
        committed_at=func.current_timestamp(),
        **values,
    )
    with suppress(IntegrityError), conn.begin_nested():
        conn.execute(new)
        return
    # It exists: with a greater token, or just inserted by another attempt.
    if conn.execute(taken.values(**values)).rowcount == 0:
        token = conn.scalar(select(markers.c.fencing_token).where(*mine))
        raise run.build_superseded_error(token or 0)


def mark(
    conn: "Connection", markers: "Table", staged: StagedRows, target: str, merged: Merged | None
) -> None:
    """Record in the same transaction that these rows are the window's."""
    from sqlalchemy import func, update

    window = staged.run.window
    conn.execute(
        update(markers)
        .where(*_of_window(markers, target, window))
        .values(
            data_range_end=window.end_text,
            table_name=staged.run.table,
            job_id=staged.run.job_id,
            staging=staged.location,
            row_count=staged.rows,
            inserted_count=merged.inserted if merged else None,
            updated_count=merged.updated if merged else None,
            committed_at=func.current_timestamp(),
        )
    )


def _of_window(markers: "Table", target: str, window: TimeWindow) -> "list[ColumnElement[bool]]":
    start = window.start_text
    return [markers.c.target_table == target, markers.c.data_range_start == start]
