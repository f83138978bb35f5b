"""Run logs with a long history, written by the database itself: ten million attempts in minutes.

A log of hourly tables, as the product would have left it: nearly all windows are finished and in
`log_range`, one in 33 needed a second attempt, slices have keys, consumers have had their batches.
What is open does not depend on the length: some last windows failed, some run, some upstreams were
refreshed lately.
"""

from collections.abc import Iterator
from datetime import datetime, timedelta, timezone
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection, Engine

from benchmarks.big_projects import Shape
from logdriven_dagster.runlog import RunLog
from logdriven_dagster.runlog.schema.attempts import (
    batch_archive,
    job_log,
    job_log_archive,
    log_range,
    refresh_bookmark,
    step_log,
)

HOUR = 3600
_AT_ONCE = 200_000
_TRIED_AGAIN = 33

_metadata = sa.MetaData()
_tables = sa.Table(
    "big_tables",
    _metadata,
    sa.Column("k", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("name", sa.String(128)),
    sa.Column("kind", sa.String(16)),
)
_windows = sa.Table(
    "big_windows",
    _metadata,
    sa.Column("n", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("start", sa.BigInteger),
    sa.Column("text", sa.String(20)),
    sa.Column("text_end", sa.String(20)),
    sa.Column("instant", sa.DateTime),
)


def shape_of(engine: Engine) -> Shape:
    """What was written before."""
    span = sa.select(sa.func.count(), sa.func.max(_windows.c.start))
    with engine.connect() as conn:
        windows, last = conn.execute(span).one()
        tables = conn.execute(sa.select(sa.func.count()).select_from(_tables)).scalar_one()
    return Shape(tables, windows, datetime.fromtimestamp(last + HOUR, timezone.utc))


def fill(log: RunLog, shape: Shape) -> int:
    """Write the log; how many attempts it holds."""
    with log.begin() as conn:
        indexes = _drop_indexes(conn)
        _metadata.create_all(conn)
        _seed(conn, shape)
    step = max(_AT_ONCE // shape.tables, 1)
    for first in range(0, shape.windows, step):
        with log.begin() as conn:
            _write_windows(conn, shape, first, min(first + step, shape.windows))
    with log.begin() as conn:
        _write_rest(conn, shape)
    for index in indexes:
        with log.begin() as conn:
            index.create(conn)
    _analyze(log.engine)
    with log.read() as conn:
        return conn.execute(sa.select(sa.func.count()).select_from(job_log)).scalar_one()


def _drop_indexes(conn: Connection) -> list[sa.Index]:
    indexes = [index for log in (job_log, batch_archive) for index in log.indexes]
    for index in indexes:
        index.drop(conn)
    return indexes


def _seed(conn: Connection, shape: Shape) -> None:
    rows = [{"k": k, "name": shape.name(k), "kind": shape.kind(k)} for k in range(shape.tables)]
    conn.execute(sa.insert(_tables), rows)
    conn.execute(sa.insert(_windows), list(_windows_of(shape)))


def _windows_of(shape: Shape) -> Iterator[dict[str, Any]]:
    now = datetime.now(timezone.utc).replace(tzinfo=None) - timedelta(minutes=10)
    for n in range(shape.windows):
        start, end = (shape.start + timedelta(hours=m) for m in (n, n + 1))
        yield {
            "n": n,
            "start": int(start.timestamp()),
            "text": f"{start:%Y%m%d%H%M%S}",
            "text_end": f"{end:%Y%m%d%H%M%S}",
            "instant": now - timedelta(hours=shape.windows - n),
        }


def _write_windows(conn: Connection, shape: Shape, first: int, end: int) -> None:
    """Attempts and their steps, in the order in which they would have run."""
    for number, chosen in ((1, _again()), (2, sa.true())):
        query = _attempts(shape, number).where(_windows.c.n >= first, _windows.c.n < end, chosen)
        names = [column.name for column in query.selected_columns]
        conn.execute(sa.insert(job_log).from_select(names, query))
    log = job_log.c
    steps = sa.select(
        log.job_id,
        sa.literal("load"),
        log.status,
        log.job_start_time,
        sa.func.coalesce(log.job_end_time, log.job_start_time),
        *(sa.literal(n) for n in (3, 1000, 1000, 1000, 0)),
        sa.literal("1,000 rows in 1 file"),
        sa.case((log.status == "FAILURE", "broken\nin line 2"), else_=None),
        sa.literal("sql"),
        sa.literal("iceberg"),
    ).where(log.job_id > 2 * shape.tables * first, log.job_id <= 2 * shape.tables * end)
    names = ["job_id", "step_id", "status", "start_time", "end_time", "duration", "source_count"]
    names += ["target_count", "success_count", "failure_count", "output", "error"]
    names += ["source_type", "target_type"]
    conn.execute(sa.insert(step_log).from_select(names, steps))


def _again() -> sa.ColumnElement[bool]:
    """Windows that needed a second attempt."""
    return (_windows.c.n * 7 + _tables.c.k) % _TRIED_AGAIN == 0


def _attempts(shape: Shape, number: int) -> sa.Select[Any]:
    """The first attempts where there are two, or the last ones of all."""
    n, k, last = _windows.c.n, _tables.c.k, number == 2
    sliced = _tables.c.kind != "time_window"
    is_open = (n == shape.windows - 1) & sa.not_(sliced)
    failed, runs = is_open & (k % 20 == 3), is_open & (k % 200 == 7)
    status = sa.case((failed, "FAILURE"), (runs, "RUNNING"), else_="SUCCESS")
    low = sa.cast(n * 100, sa.String(20))
    key = sa.case((_tables.c.kind == "auto_inc_id", low), else_=sa.cast(n, sa.String(20)))
    start = sa.case((sliced, n), else_=_windows.c.start)
    two = sa.case((_again(), 2), else_=1) if last else sa.literal(1)
    columns: dict[str, Any] = {
        "job_id": (n * shape.tables + k) * 2 + number,
        "job_name": _tables.c.name,
        "job_period": sa.literal(60),
        "job_schedule_id": _tables.c.name + "-" + sa.case((sliced, key), else_=_windows.c.text),
        "data_range_start": sa.case((sliced, low), else_=_windows.c.text),
        "data_range_end": sa.case(
            (sliced, sa.cast((n + 1) * 100, sa.String(20))), else_=_windows.c.text_end
        ),
        "job_start_time": _windows.c.instant,
        "job_end_time": sa.case((runs, None), else_=_windows.c.instant)
        if last
        else _windows.c.instant,
        "status": status if last else sa.literal("FAILURE"),
        "create_time": _windows.c.instant,
        "last_update_time": _windows.c.instant,
        "incremental_type": _tables.c.kind,
        "application_id": sa.literal("local-1700000000000"),
        "project_name": sa.literal("scale"),
        "run_trigger": sa.literal("pending"),
        "attempt_number": two,
        "again": sa.case((_again(), 1), else_=None) if last else sa.literal(None, sa.SmallInteger),
        "error_count": sa.literal(0),
        "owner": sa.literal("elsewhere:1:2"),
        "dagster_run_id": sa.literal("run-") + sa.cast(n, sa.String(20)),
        "data_now": _windows.c.start + HOUR,
        "window_start": start,
        "window_end": sa.case((sliced, n + 1), else_=_windows.c.start + HOUR),
        "latest": sa.literal(1 if last else None, sa.SmallInteger),
        "fencing_token": n + number,
        "heartbeat_at": _windows.c.instant,
        "lease_expires_at": (
            sa.case((runs, sa.literal(datetime(2100, 1, 1))), else_=None)
            if last
            else sa.literal(None, sa.DateTime)
        ),
        "failures": sa.literal(0),
        "definition": sa.literal("0" * 64),
        "covered": (
            sa.case((failed | runs, None), else_=1) if last else sa.literal(None, sa.SmallInteger)
        ),
        "has_more": sa.literal(0),
        "table_version": sa.literal(1),
        "parameters": sa.literal("{}"),
    }
    query = sa.select(*(column.label(name) for name, column in columns.items()))
    return query.select_from(_windows.join(_tables, sa.true())).order_by(n, k)


def _write_rest(conn: Connection, shape: Shape) -> None:
    """Ranges, bookmarks, what consumers have had, and refreshes of some old windows."""
    last, sliced = job_log.c, _tables.c.kind != "time_window"
    done = sa.select(
        last.job_name,
        sa.literal("SUCCESS"),
        sa.func.min(last.window_start),
        sa.func.max(last.window_end),
    ).where(last.covered == 1)
    names = ["job_name", "status", "window_start", "window_end"]
    conn.execute(sa.insert(log_range).from_select(names, done.group_by(last.job_name)))
    up = _tables.alias("up")
    newest = 2 * shape.tables * shape.windows
    marks = sa.select(_tables.c.name, up.c.name, sa.literal(newest)).join(
        up, up.c.k == _tables.c.k - 1
    )
    mark_names = ["job_name", "upstream", "job_id"]
    marks = marks.where(sa.not_(sliced))
    conn.execute(sa.insert(refresh_bookmark).from_select(mark_names, marks))
    _archive_batches(conn)
    _refresh(conn, shape, newest)
    if conn.dialect.name == "postgresql":
        sequence = sa.func.setval(sa.func.pg_get_serial_sequence("job_log", "job_id"), newest * 2)
        conn.execute(sa.select(sequence))


def _archive_batches(conn: Connection) -> None:
    up, log = _tables.alias("up"), job_log.c
    consumed = (
        sa.select(
            log.job_id,
            _tables.c.name,
            sa.literal("load"),
            up.c.name,
            log.job_id,
            log.job_id,
            log.job_id + 2,
            sa.literal(1),
            log.data_range_start,
            log.window_start,
            log.window_end,
            log.create_time,
        )
        .select_from(_tables)
        .join(up, up.c.k == _tables.c.k - 1)
        .join(job_log, log.job_name == up.c.name)
        .where(_tables.c.kind == "upstream", log.covered == 1)
    )
    names = ["queue_id", "job_name", "step_id", "source_job_name", "source_batch_id"]
    names += ["source_job_id", "target_batch_id", "batch_state", "batch_marking"]
    names += ["window_start", "window_end", "insert_ts"]
    conn.execute(sa.insert(batch_archive).from_select(names, consumed))


def _refresh(conn: Connection, shape: Shape, newest: int) -> None:
    """Windows in the middle of the history of three tables ran once more just now."""
    for number, k in enumerate((10, 30, 50)):
        n = shape.windows // 2
        mine = (job_log.c.job_id == (n * shape.tables + k) * 2 + 2) & (k < shape.tables)
        names = [column.name for column in job_log.columns]
        changed = {"job_id": newest + 10 + number, "attempt_number": 3, "again": 1}
        row = conn.execute(sa.select(job_log).where(mine)).mappings().first()
        if row is not None:
            conn.execute(sa.update(job_log).where(mine).values(latest=None))
            conn.execute(sa.insert(job_log).values({n: row[n] for n in names} | changed))


def _analyze(engine: Engine) -> None:
    """What servers do by themselves; SQLite is left as it is, since nobody does it there."""
    with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as conn:
        if engine.dialect.name == "postgresql":
            conn.execute(sa.text("VACUUM ANALYZE"))
        elif engine.dialect.name != "sqlite":
            logs = (job_log, job_log_archive, step_log, batch_archive, log_range)
            conn.execute(sa.text("ANALYZE TABLE " + ", ".join(log.name for log in logs)))
