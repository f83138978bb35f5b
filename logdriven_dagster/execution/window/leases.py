"""Keeping a lease while its holder works: that of a window's attempt, or of a job's run."""

import logging
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta

from sqlalchemy.engine import Connection
from sqlalchemy.exc import SQLAlchemyError

from logdriven_dagster.errors import AttemptLostError, LeaseExpiredError, RunLogError
from logdriven_dagster.model.attempts import Attempt
from logdriven_dagster.model.job_runs import JobRun
from logdriven_dagster.runlog import RunLog
from logdriven_dagster.runlog.attempts import leases
from logdriven_dagster.runlog.jobs import runs as job_runs
from logdriven_dagster.runlog.store import UndoneError, UnreachableError

_OFTEN = timedelta(seconds=5)
"""At least so often a runner looks whether its attempt was discarded."""
_AGAIN = 0.5
"""Seconds between tries while the run log cannot be reached."""

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Lease:
    """A row that is RUNNING in the log, and how its holder renews and proves it."""

    what: str
    duration: timedelta
    renew: Callable[[Connection], None]
    """AttemptLostError if the row is not ours any more; so does `verify`."""
    verify: Callable[[Connection], None]


def lease_of(attempt: Attempt) -> Lease:
    """The lease on a window."""
    return Lease(
        f"job {attempt.job_id}, {attempt.table} {attempt.window}",
        attempt.claim.lease,
        lambda conn: leases.renew(conn, attempt),
        lambda conn: leases.verify(conn, attempt),
    )


def lease_of_stretch(together: Sequence[Attempt]) -> Lease:
    """The leases on several windows, which are kept or lost together."""
    first, last = together[0], together[-1]
    return Lease(
        f"jobs {first.job_id} – {last.job_id}, {first.table} from {first.window} on",
        first.claim.lease,
        lambda conn: leases.renew_all(conn, together),
        lambda conn: leases.verify_all(conn, together),
    )


def lease_of_job(run: JobRun) -> Lease:
    """The lease on a job."""
    return Lease(
        f"run {run.job_run_id} of {run.job}",
        run.request.lease,
        lambda conn: job_runs.renew(conn, run),
        lambda conn: job_runs.verify(conn, run),
    )


class HeldLease:
    """Renews a lease from a thread of its own, and knows when it is lost.

    The thread can be late, or the whole process frozen: what publishes asks `verify`, which asks
    the run log. `check` costs nothing and is for everything that only should not go on in vain.
    """

    def __init__(self, run_log: RunLog, lease: Lease, claimed_at: float) -> None:
        """`claimed_at` is a moment of `time.monotonic` not after the claim."""
        self._run_log, self._lease = run_log, lease
        self._duration = lease.duration.total_seconds()
        self._deadline = claimed_at + self._duration
        self._lost: AttemptLostError | None = None
        self._released = threading.Event()
        name = f"heartbeat of {lease.what}"
        self._thread = threading.Thread(target=self._beat, name=name, daemon=True)

    @contextmanager
    def kept(self) -> Iterator["HeldLease"]:
        """Renew the lease from here to the end of the block."""
        self._thread.start()
        try:
            yield self
        finally:
            self._released.set()
            self._thread.join(self._duration)

    def check(self) -> None:
        """AttemptLostError if the lease is known to be lost or could not be renewed in time."""
        if self._lost is not None:
            raise self._lost
        if time.monotonic() > self._deadline:
            raise LeaseExpiredError(
                f"{self._lease.what}: the lease could not be renewed for {self._duration:g} s; "
                "nothing more is published, whoever comes next goes on with it"
            )

    def verify(self) -> None:
        """AttemptLostError unless the run log says that the lease is ours at this moment.

        While the run log cannot be reached this waits, as long as the lease lasts.
        """
        while True:
            self.check()
            try:
                with self._run_log.read() as conn:
                    return self._lease.verify(conn)
            except (UnreachableError, UndoneError):
                time.sleep(_AGAIN)

    def _beat(self) -> None:
        usual = pause = min(self._duration / 3, _OFTEN.total_seconds())
        while self._lost is None and not self._released.wait(pause):
            pause = usual if self._renewed() else min(_AGAIN, usual)

    def _renewed(self) -> bool:
        """Renew once; False if the run log could not be reached."""
        began = time.monotonic()
        try:
            with self._run_log.begin() as conn:
                self._lease.renew(conn)
        except AttemptLostError as lost:
            self._lost = lost
        except (RunLogError, SQLAlchemyError) as error:
            logger.warning("heartbeat_failed: %s: %s", self._lease.what, error)
            return False
        else:
            self._deadline = began + self._duration
        return True
