"""A line of JSON for each attempt that has ended, for who collects logs.

The lines are messages of one logger of Python, and none is made unless somebody listens to it:
`logdriven run --log-format json`, or Dagster, where its `python_logs` names the logger.
"""

import json
import logging
from collections.abc import Iterable, Iterator
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


def log_ends(events: Iterable[WindowEvent], application_id: str | None) -> None:
    """Tell how attempts ended; `application_id` is that of Spark, if it ran."""
    if not _logger.isEnabledFor(logging.INFO):
        return
    for event in events:
        match event:
            case WindowSucceeded():
                done = {"seconds": round(event.seconds, 3), **rows_of(event.steps)}
                _tell(event.attempt, Status.SUCCESS.value, application_id, **done)
            case WindowFailed(step_id=step, error=error):
                failed = {"seconds": round(event.seconds, 3), "step": step}
                _tell(event.attempt, Status.FAILURE.value, application_id, error, **failed)
            case WindowSetBack(reason=reason):
                _tell(event.attempt, Status.DISCARDED.value, application_id, reason)
            case WindowLost(reason=why):
                _tell(event.attempt, "LOST", application_id, str(why))
            case _:
                pass


def log_interruption(
    attempts: Iterable[Attempt], step: str, application_id: str | None, why: str
) -> None:
    """Tell of attempts whose runner is being stopped at a step."""
    if _logger.isEnabledFor(logging.INFO):
        for attempt in attempts:
            _tell(attempt, Status.DISCARDED.value, application_id, why, step=step)


def _tell(
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
