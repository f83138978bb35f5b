"""Progress of a running attempt: its range, its failed tries, and the start of publishing."""

from collections.abc import Sequence
from dataclasses import replace

from sqlalchemy.engine import Connection

from logdriven_dagster.model.attempts import Attempt
from logdriven_dagster.model.windows import Slice
from logdriven_dagster.runlog.attempts import overlaps
from logdriven_dagster.runlog.attempts.leases import ATTEMPTS


def write_bounds(conn: Connection, attempt: Attempt, window: Slice, *, has_more: bool) -> Attempt:
    """Write the bounds of a key or offset range before it is read, and return the bound attempt.

    Source: Sharp ETL, `data_range_end` of keys and offsets is known when the job runs.
    """
    found = {
        "data_range_start": window.range_start,
        "data_range_end": window.range_end,
        "has_more": int(has_more),
    }
    ATTEMPTS.write(conn, [attempt], found)
    return replace(attempt, claim=replace(attempt.claim, window=window))


def note_errors(conn: Connection, attempts: Sequence[Attempt], number: int) -> None:
    """Record the number of failed tries so far.

    Source: Kettle, `error_count`, kept by a success.
    """
    ATTEMPTS.write(conn, attempts, {"error_count": number})


def note_change(conn: Connection, attempts: Sequence[Attempt]) -> None:
    """Record that these attempts begin to publish, so that readers may see changed rows.

    A process that finds a killed refresh decides by this record if the earlier result is intact.
    Finished windows that the attempts replace no longer count.
    """
    ATTEMPTS.write(conn, attempts, {"standing": None}, lease=attempts[0].lease)
    overlaps.supersede(conn, attempts)
