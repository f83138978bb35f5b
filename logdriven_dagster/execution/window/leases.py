"""Lease renewal during work: leases of attempts at windows, and of job runs."""

import logging
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta

from sqlalchemy.exc import SQLAlchemyError

from logdriven_dagster.errors import AttemptLostError, LeaseExpiredError, RunLogError
from logdriven_dagster.runlog import RunLog
from logdriven_dagster.runlog.leases import Leased, LeasedRows
from logdriven_dagster.runlog.store import UndoneError, UnreachableError

_OFTEN = timedelta(seconds=5)
"""The maximum interval at which a runner checks if its attempt was discarded."""
_AGAIN = 0.5
"""Seconds between tries while the run log is unreachable."""

logger = logging.getLogger(__name__)


class HeldLease:
    """Leases that a separate thread renews; either all of them are held or all are lost.

    The thread can be late, or the whole process frozen, so publishing calls `verify`, which reads
    the run log. `check` costs nothing; call it in all other work that is useless without the lease.
    """

    def __init__(
        self, run_log: RunLog, rows: LeasedRows, holders: Sequence[Leased], claimed_at: float
    ) -> None:
        """Hold leases; `claimed_at` is a time of `time.monotonic` not after the claim."""
        self._run_log, self._rows, self._holders = run_log, rows, holders
        others = f" and {len(holders) - 1} more" if len(holders) > 1 else ""
        self._what = f"{holders[0]}{others}"
        self._duration = holders[0].lease.total_seconds()
        self._deadline = claimed_at + self._duration
        self._lost: AttemptLostError | None = None
        self._released = threading.Event()
        name = f"heartbeat of {self._what}"
        self._thread = threading.Thread(target=self._beat, name=name, daemon=True)

    @contextmanager
    def keep(self) -> Iterator["HeldLease"]:
        """Renew the lease from here to the end of the block."""
        self._thread.start()
        try:
            yield self
        finally:
            self._released.set()
            self._thread.join(self._duration)

    def check(self) -> None:
        """Raise AttemptLostError if the lease is known to be lost or was not renewed in time."""
        if self._lost is not None:
            raise self._lost
        if time.monotonic() > self._deadline:
            raise LeaseExpiredError(
                f"{self._what}: could not renew the lease for {self._duration:g} s; nothing "
                "more is published, and the next runner continues the window"
            )

    def verify(self) -> None:
        """Raise AttemptLostError unless the run log confirms that the lease is currently held.

        While the run log is unreachable, this waits for as long as the lease lasts.
        """
        while True:
            self.check()
            try:
                with self._run_log.read() as conn:
                    return self._rows.verify(conn, self._holders)
            except (UnreachableError, UndoneError):
                time.sleep(_AGAIN)

    def _beat(self) -> None:
        usual = pause = min(self._duration / 3, _OFTEN.total_seconds())
        while self._lost is None and not self._released.wait(pause):
            pause = usual if self._renew() else min(_AGAIN, usual)

    def _renew(self) -> bool:
        """Renew once. Returns False if the run log is unreachable."""
        began = time.monotonic()
        try:
            with self._run_log.begin() as conn:
                self._rows.renew(conn, self._holders)
        except AttemptLostError as lost:
            self._lost = lost
        except (RunLogError, SQLAlchemyError) as error:
            logger.warning("heartbeat_failed: %s: %s", self._what, error)
            return False
        else:
            self._deadline = began + self._duration
        return True
