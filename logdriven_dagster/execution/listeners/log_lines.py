"""JSON log lines, one for each attempt that has ended, for log collectors.

The lines are messages of a Python logger. None is made unless the logger has a consumer: `logdriven
run --log-format json`, or Dagster, if its `python_logs` lists the logger.
"""

import json
import logging
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime, timezone
from typing import IO, Any

from logdriven_dagster.config.secrets import redact
from logdriven_dagster.errors import in_brief
from logdriven_dagster.execution.events import (
    WindowEvent,
    WindowFailed,
    WindowLost,
    WindowSetBack,
    WindowSucceeded,
    rows_of,
)
from logdriven_dagster.execution.window.listeners import Interruption, WindowListener
from logdriven_dagster.model.attempts import Attempt, Status

LOGGER = "logdriven_dagster.windows"
_logger = logging.getLogger(LOGGER)


@contextmanager
def lines_to(stream: IO[str]) -> Iterator[None]:
    """Write the lines, and nothing else, to a stream."""
    handler = logging.StreamHandler(stream)
    handler.setFormatter(logging.Formatter("%(message)s"))
    level, propagate = _logger.level, _logger.propagate
    _logger.addHandler(handler)
    _logger.setLevel(logging.INFO)
    _logger.propagate = False
    try:
        yield
    finally:
        _logger.removeHandler(handler)
        _logger.setLevel(level)
        _logger.propagate = propagate


class LogLines(WindowListener):
    """Listener that logs a line for each attempt that has ended."""

    def on_end(self, events: Sequence[WindowEvent], application_id: str | None) -> None:
        """Log the outcomes of attempts."""
        _log_ends(events, application_id)

    def on_interruption(self, attempts: Sequence[Attempt], interruption: Interruption) -> None:
        """Log the step at which attempts were interrupted."""
        if _logger.isEnabledFor(logging.INFO):
            status, application_id = Status.DISCARDED.value, interruption.application_id
            for attempt in attempts:
                reason, step = interruption.reason, interruption.step
                _log(attempt, status, application_id, reason, step=step)


def _log_ends(events: Iterable[WindowEvent], application_id: str | None) -> None:
    if not _logger.isEnabledFor(logging.INFO):
        return
    for event in events:
        match event:
            case WindowSucceeded():
                done = {"seconds": round(event.seconds, 3), **rows_of(event.steps)}
                _log(event.attempt, Status.SUCCESS.value, application_id, **done)
            case WindowFailed(step_id=step, error=error):
                failed = {"seconds": round(event.seconds, 3), "step": step}
                _log(event.attempt, Status.FAILURE.value, application_id, error, **failed)
            case WindowSetBack(reason=reason):
                _log(event.attempt, Status.DISCARDED.value, application_id, reason)
            case WindowLost(reason=why):
                _log(event.attempt, "LOST", application_id, str(why))
            case _:
                pass


def _log(
    attempt: Attempt, status: str, application_id: str | None, error: str = "", **more: Any
) -> None:
    claim, window = attempt.claim, attempt.window
    start, end = (
        bound.isoformat() if isinstance(bound, datetime) else bound for bound in window.bounds
    )
    line = {
        "time": datetime.now(timezone.utc).isoformat(timespec="milliseconds"),
        "project": claim.project,
        "table": claim.table,
        "data_range_start": start,
        "data_range_end": end,
        "status": status,
        "trigger": claim.trigger.value,
        "job_id": attempt.job_id,
        "attempt_number": attempt.attempt_number,
        **more,
        "error": redact(in_brief(error)) or None,
        "job_run_id": claim.job_run_id,
        "dagster_run_id": claim.owner.dagster_run_id,
        "application_id": application_id,
    }
    level = logging.ERROR if status == Status.FAILURE.value else logging.INFO
    _logger.log(level, "%s", json.dumps(line, ensure_ascii=False))
