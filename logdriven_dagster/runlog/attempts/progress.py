"""What a running attempt notes about itself: its range, its failed tries, that readers see it."""

from collections.abc import Sequence
from dataclasses import replace

from sqlalchemy.engine import Connection

from logdriven_dagster.model.attempts import Attempt
from logdriven_dagster.model.windows import Slice
from logdriven_dagster.runlog.attempts import overlaps
from logdriven_dagster.runlog.attempts.leases import ATTEMPTS


def bound(conn: Connection, attempt: Attempt, window: Slice, *, has_more: bool) -> Attempt:
    """Write back what a slice covers, before anything of it is read; the attempt at that slice.

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
    """Log how many tries have failed so far. Source: Kettle, `error_count`, kept by a success."""
    ATTEMPTS.write(conn, attempts, {"error_count": number})


def note_change(conn: Connection, attempts: Sequence[Attempt]) -> None:
    """Log that readers may see something of these refreshes from here on.

    Whoever finds one that was killed knows by that whether what was before still stands. Finished
    windows that they replace count no more.
    """
    ATTEMPTS.write(conn, attempts, {"standing": None}, lease=attempts[0].lease)
    overlaps.supersede(conn, attempts)
