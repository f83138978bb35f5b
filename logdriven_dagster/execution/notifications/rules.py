"""Notification rules: the recipients of notices, and the messages that deliver them.

A notice is written by the transaction that ends its attempt, so it exists exactly if the attempt
ended so, and only once. Messages are sent afterwards: one per recipient for all notices of a run.
Nothing here raises: an unreachable recipient never affects a window. Source: Sharp ETL,
NotificationUtil.
"""

import logging
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from functools import update_wrapper
from threading import Lock, Thread
from typing import Concatenate, ParamSpec, Protocol, TypeVar

from sqlalchemy.engine import Connection

from logdriven_dagster.config.models.notifications import NotifyRule, Occasion
from logdriven_dagster.config.project import Project
from logdriven_dagster.config.secrets import redact
from logdriven_dagster.execution.notifications.composition import compose
from logdriven_dagster.execution.notifications.senders import send
from logdriven_dagster.execution.window.listeners import Listeners
from logdriven_dagster.model.attempts import Attempt, Owner, Status
from logdriven_dagster.model.job_runs import JobRun
from logdriven_dagster.runlog import RunLog
from logdriven_dagster.runlog.observed import notifications
from logdriven_dagster.runlog.observed.notifications import Event, Notice, Parcel, SubjectType

logger = logging.getLogger(__name__)

_PATIENCE = timedelta(seconds=15)
"""The time that the end of a run waits for its messages; unsent ones are sent later."""
_LONG_RUN = timedelta(minutes=3)
"""The time after which a run sends its notices before it ends."""

P = ParamSpec("P")
E = TypeVar("E")


def events_by_recipient(
    rules: Sequence[NotifyRule], status: Status, failed_before: Callable[[], bool]
) -> dict[str, Event]:
    """Return recipient → the event it is notified of, for an attempt or a run with this status.

    Only an attempt's own success and failure cause notices, not that it was discarded, replaced or
    taken over. `failed_before` queries the log, and is called only if a notice is possible.
    """
    if status not in (Status.SUCCESS, Status.FAILURE) or not rules:
        return {}
    occasions: set[Occasion]
    event: Event
    match status, failed_before():
        case Status.FAILURE, False:
            event, occasions = "failure", {"failure", "always"}
        case Status.FAILURE, True:
            event, occasions = "failure", {"always"}
        case _, True:
            event, occasions = "recovery", {"recovery", "success", "always"}
        case _:
            event, occasions = "success", {"success", "always"}
    return {name: event for rule in rules if occasions & set(rule.on) for name in rule.to}


@dataclass(frozen=True, slots=True)
class Announcer:
    """Writer of notices to the outbox, in the transaction of the caller."""

    project: Project
    owner: Owner
    rules: Sequence[NotifyRule]

    def attempt_ended(self, conn: Connection, attempt: Attempt, status: Status) -> None:
        """Write notices about an attempt at a window that has just ended by itself."""
        self._post(
            conn, "table", attempt.table, attempt.job_id, self._choose_events(conn, attempt, status)
        )

    def nothing_new(self, conn: Connection, attempt: Attempt) -> None:
        """Write notices about an attempt whose source had nothing new: only if it is a recovery."""
        recovered: dict[str, Event] = {
            name: event
            for name, event in self._choose_events(conn, attempt, Status.SUCCESS).items()
            if event == "recovery"
        }
        self._post(conn, "table", attempt.table, attempt.job_id, recovered)

    def job_run_ended(self, conn: Connection, run: JobRun, status: Status) -> None:
        """Write notices about a job run that has just ended by itself."""

        def has_failed_before() -> bool:
            return notifications.has_job_failed_before(conn, run.job_run_id)

        events = events_by_recipient(self.rules, status, has_failed_before)
        self._post(conn, "job", run.job, run.job_run_id, events)

    def _choose_events(
        self, conn: Connection, attempt: Attempt, status: Status
    ) -> dict[str, Event]:
        def has_failed_before() -> bool:
            again = attempt.attempt_number > 1
            return again and notifications.has_window_failed_before(conn, attempt.job_id)

        return events_by_recipient(self.rules, status, has_failed_before)

    def _post(
        self,
        conn: Connection,
        kind: SubjectType,
        subject: str,
        job_id: int,
        events: dict[str, Event],
    ) -> None:
        known = self.project.config.recipients
        notices = [
            Notice(name, kind, subject, event, job_id)
            for name, event in events.items()
            if name in known  # an older version of a table may have others
        ]
        notifications.post(conn, notices, str(self.owner))


def of_job_run(conn: Connection, project: Project, run: JobRun, status: Status) -> None:
    """Write notices about the end of a job run to the outbox.

    Call it in the transaction that ends the row of `job_run`, after `job_runs.finish`.
    """
    rules = project.jobs[run.job].notify if run.job in project.jobs else ()
    if rules is None:
        rules = project.config.defaults.notify or ()
    Announcer(project, run.request.owner, rules).job_run_ended(conn, run, status)


@dataclass
class Outbox:
    """Sender of notices: all of one run together, and those that dead runs left."""

    project: Project
    run_log: RunLog
    owner: Owner
    listeners: Listeners
    depth: int = 0
    lock: Lock = field(default_factory=Lock)
    """Needed because windows run in several threads."""
    delivered: float = field(default_factory=time.monotonic)

    @contextmanager
    def gather(self) -> Iterator[None]:
        """Gather the notices of a block into one message for each recipient, sent at its end.

        A nested block sends nothing at its end, except in long runs. Listeners observe the
        outermost block as a run.
        """
        with self.lock:
            self.depth += 1
        try:
            with self.listeners.observe_run(self.project.name, self.owner):
                yield
        finally:
            with self.lock:
                self.depth -= 1
                outermost = self.depth == 0
            long_ago = time.monotonic() - self.delivered > _LONG_RUN.total_seconds()
            if outermost:
                self.deliver(_PATIENCE)
            elif long_ago:
                self.deliver(timedelta(0))

    def deliver(self, patience: timedelta = _PATIENCE) -> None:
        """Send due notices, and wait for at most `patience`. Never raises."""
        self.delivered = time.monotonic()
        threads = [
            Thread(target=self._deliver_to, args=(name,), daemon=True) for name in self._waiting()
        ]
        for thread in threads:
            thread.start()
        until = time.monotonic() + patience.total_seconds()
        for thread in threads:
            thread.join(max(0.0, until - time.monotonic()))

    def _waiting(self) -> Sequence[str]:
        recipients = self.project.config.recipients
        if not recipients:
            return ()
        try:
            with self.run_log.read() as conn:
                return notifications.find_waiting_recipients(conn, recipients, str(self.owner))
        except Exception as error:  # noqa: BLE001 - the run has ended, and its outcome stays
            logger.warning("could not read the notifications: %s", redact(str(error)))
            return ()

    def _deliver_to(self, recipient: str) -> None:
        try:
            parcel = self.run_log.write(
                lambda conn: notifications.take(conn, recipient, str(self.owner))
            )
            if parcel is not None:
                self._send(parcel)
        except Exception as error:  # noqa: BLE001 - as above; it is retried
            logger.warning("could not send notification to %s: %s", recipient, redact(str(error)))

    def _send(self, parcel: Parcel) -> None:
        recipient = self.project.config.recipients[parcel.recipient]
        try:
            message = self.run_log.ask(lambda conn: compose(conn, self.project, parcel))
            send(recipient, message)
        except Exception as error:  # noqa: BLE001 - servers and libraries may raise anything
            text = redact(f"{type(error).__name__}: {error}")
            logger.warning(
                "could not send notification to %s; it is sent again later: %s",
                parcel.recipient,
                text,
            )
            self.run_log.write(
                lambda conn: notifications.record_failed_delivery(conn, parcel, text)
            )
        else:
            self.run_log.write(lambda conn: notifications.record_sent(conn, parcel))


class _Gathers(Protocol):
    @property
    def outbox(self) -> Outbox: ...


S = TypeVar("S", bound=_Gathers)


def gathering(
    method: Callable[Concatenate[S, P], Generator[E]],
) -> Callable[Concatenate[S, P], Generator[E]]:
    """Decorate a method that runs windows, to gather its notices into one message per recipient."""

    def gather(self: S, /, *args: P.args, **kwargs: P.kwargs) -> Generator[E]:
        with self.outbox.gather():
            yield from method(self, *args, **kwargs)

    return update_wrapper(gather, method)
