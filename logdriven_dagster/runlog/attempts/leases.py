"""The lease of an attempt: its RUNNING row. Every write of the attempt is guarded by its token.

Source: Kylin, distributed job lock: one lock for each segment, its owner readable, takeover when
the owner is gone. The token is ours, since a lock alone cannot stop an owner that wakes up.
"""

from collections.abc import Mapping, Sequence
from datetime import timedelta
from functools import cache
from typing import Any

from sqlalchemy import ColumnElement, Table, and_, case, not_, or_, select, update
from sqlalchemy.engine import Connection
from sqlalchemy.sql.dml import Update

from logdriven_dagster.errors import AttemptLostError
from logdriven_dagster.model.attempts import Attempt, Owner, Status
from logdriven_dagster.runlog.attempts.steps import close_steps, forget_staged
from logdriven_dagster.runlog.schema.attempts import job_log
from logdriven_dagster.runlog.sql.clock import not_in_future, utc_from_now, utc_now

_RUNNING = Status.RUNNING.value


def held(attempt: Attempt) -> ColumnElement[bool]:
    """The attempt's row while its lease is ours.

    The guard is the token, not the owner: one owner may hold a window twice.
    """
    return and_(
        job_log.c.job_id == attempt.job_id,
        job_log.c.status == _RUNNING,
        job_log.c.fencing_token == attempt.fencing_token,
    )


@cache
def expired(log: Table = job_log) -> ColumnElement[bool]:
    """Whether a RUNNING row's lease is over, by the database's clock; without an expiry it is.

    A heartbeat in the future tells that the clock was set back. A holder that lives has renewed its
    lease within seconds; one that is dead would otherwise hold it until the clock is there again.
    """
    return or_(
        log.c.lease_expires_at.is_(None),
        log.c.lease_expires_at < utc_now(),
        not_(not_in_future(log.c.heartbeat_at)),
    )


@cache
def is_expired(log: Table = job_log) -> ColumnElement[int]:
    """A column `expired` for rows of a log: 1 for one that is RUNNING without a lease."""
    over = (log.c.status == _RUNNING) & expired(log)
    return case((over, 1), else_=0).label("expired")


def renew(conn: Connection, attempt: Attempt) -> None:
    """Move the expiry forward; AttemptLostError if the attempt was ended or taken over.

    A lease that ran out unnoticed is still ours as long as nobody has taken it.
    """
    lease = lease_for(attempt.claim.lease) | {"last_update_time": utc_now()}
    renewed = update(job_log).where(held(attempt)).values(**lease)
    write_held(conn, attempt, renewed)


def verify(conn: Connection, attempt: Attempt) -> None:
    """AttemptLostError if the attempt is not ours any more; the last look before publication."""
    if conn.execute(select(job_log.c.job_id).where(held(attempt))).first() is None:
        raise lost(conn, attempt)


def renew_all(conn: Connection, together: Sequence[Attempt]) -> None:
    """Renew attempts whose leases have one duration, in one statement."""
    lease = lease_for(together[0].claim.lease) | {"last_update_time": utc_now()}
    write_all_held(conn, together, lease)


def verify_all(conn: Connection, together: Sequence[Attempt]) -> None:
    """AttemptLostError if one of the attempts is not ours any more."""
    if len(still_held(conn, together)) != len(together):
        raise lost(conn, _first_lost(conn, together))


def still_held(conn: Connection, together: Sequence[Attempt]) -> set[int]:
    """The jobs of those attempts that are still ours."""
    return set(conn.execute(select(job_log.c.job_id).where(all_held(together))).scalars())


def all_held(together: Sequence[Attempt]) -> ColumnElement[bool]:
    """The rows of attempts while their leases are ours. A row keeps its token for ever."""
    return and_(
        job_log.c.job_id.in_([attempt.job_id for attempt in together]),
        job_log.c.status == _RUNNING,
        job_log.c.fencing_token.in_([attempt.fencing_token for attempt in together]),
    )


def _first_lost(conn: Connection, together: Sequence[Attempt]) -> Attempt:
    held_ones = still_held(conn, together)
    return next(attempt for attempt in together if attempt.job_id not in held_ones)


def write_held(conn: Connection, attempt: Attempt, statement: Update) -> None:
    """Execute a write on the attempt's row, or raise AttemptLostError."""
    if conn.execute(statement).rowcount != 1:
        raise lost(conn, attempt)


def write_all_held(
    conn: Connection, together: Sequence[Attempt], values: Mapping[str, Any]
) -> None:
    """Set the same values in the rows of all attempts, or raise AttemptLostError."""
    written = update(job_log).where(all_held(together)).values(**values)
    if conn.execute(written).rowcount != len(together):
        raise lost(conn, _first_lost(conn, together))


def lost(conn: Connection, attempt: Attempt) -> AttemptLostError:
    """What became of an attempt that is not ours any more."""
    row = conn.execute(select(job_log.c.status).where(job_log.c.job_id == attempt.job_id)).first()
    ended = f"is {row.status} in the run log" if row else "is gone from the run log"
    what = f"job {attempt.job_id}, {attempt.table} {attempt.window},"
    return AttemptLostError(f"{what} {ended}: somebody else ended it; nothing more is published")


def lease_for(duration: timedelta) -> dict[str, ColumnElement[object]]:
    """The columns of a lease that begins now."""
    return {
        "heartbeat_at": utc_now(),
        "lease_expires_at": utc_from_now(duration),
    }


def take_over(conn: Connection, row: Any, by: str) -> bool:
    """End the attempt of a row whose lease is over; False if it was renewed or ended meanwhile.

    What it had staged stays for whoever runs the window next.
    """
    reason = f"taken over from {row.owner} by {by}: its lease ran out"
    return _end(conn, row, Status.FAILURE, reason, expired())


def bury_expired(conn: Connection, by: str) -> list[int]:
    """End every attempt whose lease is over, also of tables that nobody runs any more."""
    query = select(job_log).where(job_log.c.status == _RUNNING, job_log.c.latest == 1, expired())
    return [row.job_id for row in conn.execute(query).all() if take_over(conn, row, by)]


def bury(conn: Connection, job_id: int, owner: Owner) -> bool:
    """End the attempt of a runner that is known to be dead; False if it had ended already."""
    row = _running(conn, job_log.c.job_id == job_id, job_log.c.owner == str(owner))
    reason = f"taken over from {owner}: its process is gone"
    return row is not None and _end(conn, row, Status.FAILURE, reason)


def replace(conn: Connection, job_id: int, by: Owner) -> bool:
    """End a running attempt for another one that starts anew. Source: Sharp ETL."""
    row = _running(conn, job_log.c.job_id == job_id)
    ended = row is not None and _end(conn, row, Status.FAILURE, f"replaced by {by}")
    if ended:
        forget_staged(conn, job_id)
    return ended


def discard(conn: Connection, job_id: int, by: Owner) -> bool:
    """Stop a running attempt for good; False if it had ended already. Source: Kylin, DISCARDED.

    Its runner notices with its next heartbeat at the latest and removes what it has staged.
    """
    row = _running(conn, job_log.c.job_id == job_id)
    ended = row is not None and _end(conn, row, Status.DISCARDED, f"discarded by {by}")
    if ended:
        forget_staged(conn, job_id)
    return ended


def _running(conn: Connection, *conditions: ColumnElement[bool]) -> Any:
    """The row of a running attempt, or None."""
    query = select(job_log).where(job_log.c.status == _RUNNING, *conditions)
    return conn.execute(query).first()


def _end(
    conn: Connection,
    row: Any,
    status: Status,
    reason: str,
    condition: ColumnElement[bool] | None = None,
) -> bool:
    """End somebody else's attempt; False if it has ended, or been renewed, since it was read."""
    failed = int(status is Status.FAILURE)
    ended = (
        update(job_log)
        .where(
            job_log.c.job_id == row.job_id,
            job_log.c.status == _RUNNING,
            job_log.c.fencing_token == row.fencing_token,
            *([] if condition is None else [condition]),
        )
        .values(
            status=status.value,
            job_end_time=utc_now(),
            last_update_time=utc_now(),
            error_count=job_log.c.error_count + failed,
        )
    )
    if conn.execute(ended).rowcount != 1:
        return False
    close_steps(conn, row.job_id, status, reason)
    return True
