"""Results of a run, by window and in sum."""

import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, fields
from typing import Any

from logdriven_dagster.errors import AlreadyDoneError, AlreadyRunningError
from logdriven_dagster.execution.events import (
    NeedUnmet,
    WindowEvent,
    WindowFailed,
    WindowLost,
    WindowRefused,
    WindowSetBack,
    WindowSkipped,
    WindowStarted,
    WindowSucceeded,
)
from logdriven_dagster.model.attempts import Attempt, Counts
from logdriven_dagster.model.runs import Staged
from logdriven_dagster.model.windows import TimeWindow


@dataclass(frozen=True, slots=True)
class WindowResult:
    """The result of one window of a run."""

    table: str
    window: TimeWindow
    status: str
    """The status of the window.

    - SUCCESS, FAILURE
    - LOST: another process ended it
    - SKIPPED: not attempted
    - REFUSED: requested, but may not run
    - ELSEWHERE: another process runs or has finished it
    """
    job_id: int | None = None
    attempt_number: int | None = None
    rows_read: int | None = None
    rows_written: int | None = None
    rows_inserted: int | None = None
    """The number of written rows that upserts inserted."""
    rows_updated: int | None = None
    """The number of written rows that upserts updated."""
    rows_rejected: int | None = None
    """Rows that quality rules of level `error` took out of the result."""
    rejected_by: tuple[str, ...] = ()
    """The rules that rejected rows."""
    rows_malformed: int | None = None
    """Malformed records that a source tolerated or dropped."""
    rows_of_no_window: int | None = None
    """Rows of its sources outside any window; None if none were newly counted."""
    seconds: float | None = None
    step: str | None = None
    """The step that failed."""
    reason: str | None = None
    """The error of a failed window, or the reason why it did not run."""
    stands: bool = False
    """True if only a rerun failed: the window keeps the rows that were published before."""
    definition: str | None = None
    """The version of the table that ran, if it is not that of its file."""

    def as_json(self) -> dict[str, object]:
        """Return an item of `windows` in `run --json`."""
        start, end = self.window.bounds
        values = {item.name: getattr(self, item.name) for item in fields(self)}
        table, _ = values.pop("table"), values.pop("window")
        return {"table": table, "data_range_start": start, "data_range_end": end, **values}


def build_window_result(event: WindowEvent) -> WindowResult | None:
    """Return the result that an event reports; None if the window has not ended."""
    match event:
        case WindowStarted() | WindowSetBack() | NeedUnmet():
            return None
        case WindowSucceeded(attempt=attempt, seconds=seconds):
            counts = Counts.sum(event.counts)
            return _build_result(
                attempt,
                "SUCCESS",
                rows_read=counts.source,
                rows_written=counts.target,
                rows_inserted=counts.inserted,
                rows_updated=counts.updated,
                rows_rejected=counts.failure,
                rejected_by=tuple(_find_rejecting_rules(event.steps)),
                rows_malformed=counts.malformed,
                rows_of_no_window=counts.outside,
                seconds=round(seconds, 3),
            )
        case WindowFailed(attempt=attempt, step_id=step, error=error, stands=stands):
            took = round(event.seconds, 3)
            return _build_result(
                attempt, "FAILURE", seconds=took, step=step, reason=error, stands=stands
            )
        case WindowLost(attempt=attempt, reason=why):
            return _build_result(attempt, "LOST", reason=str(why))
        case WindowRefused(reason=AlreadyDoneError() | AlreadyRunningError()):
            return WindowResult(event.table, event.window, "ELSEWHERE", reason=str(event.reason))
        case WindowRefused(table=table, window=window, reason=refusal):
            return WindowResult(table, window, "REFUSED", reason=str(refusal))
        case WindowSkipped(table=table, window=window, reason=why):
            return WindowResult(table, window, "SKIPPED", reason=why)


def _build_result(attempt: Attempt, status: str, **fields: Any) -> WindowResult:
    return WindowResult(
        attempt.table,
        attempt.window,
        status,
        attempt.job_id,
        attempt.attempt_number,
        definition=attempt.claim.other_version,
        **fields,
    )


def _find_rejecting_rules(steps: Iterable[Staged]) -> Iterator[str]:
    """Yield the rules of level `error` that rows of the steps break, with their columns."""
    for report in filter(None, (step.quality for step in steps)):
        for result in report.results:
            if result.level == "error" and not result.passed:
                yield result.subject


def _sum(values: Iterable[int | None]) -> int | None:
    """Return the sum of the numbers of all steps; None if no step has one."""
    known = [value for value in values if value is not None]
    return sum(known) if known else None


@dataclass(frozen=True, slots=True)
class RunSummary:
    """All results of a run. Source: Sharp ETL, the summary of a batch of jobs."""

    results: Sequence[WindowResult]
    seconds: float
    unmet: Sequence[NeedUnmet] = ()
    """The unmet needs that prevented some tables from starting."""

    def count(self, status: str) -> int:
        """Count the windows with this status."""
        return sum(result.status == status for result in self.results)

    def group_by_table(self) -> "dict[str, RunSummary]":
        """Return the results of each table, tables in the order of their first results."""
        tables: dict[str, list[WindowResult]] = {}
        for result in self.results:
            tables.setdefault(result.table, []).append(result)
        return {
            table: RunSummary(results, sum(r.seconds or 0 for r in results))
            for table, results in tables.items()
        }

    @property
    def rows_read(self) -> int | None:
        return _sum(result.rows_read for result in self.results)

    @property
    def rows_written(self) -> int | None:
        return _sum(result.rows_written for result in self.results)

    @property
    def rows_rejected(self) -> int | None:
        return _sum(result.rows_rejected for result in self.results)

    @property
    def failed(self) -> int:
        """The number of windows that this run began and did not finish."""
        return self.count("FAILURE") + self.count("LOST")

    @property
    def exit_code(self) -> int:
        """The exit code: 1 if a window failed, or could not begin because of an unmet need.

        A window that another process runs or has finished is not a failure.
        """
        return 1 if self.failed or self.unmet else 0

    def as_json(self) -> dict[str, object]:
        """Return the object that `run --json` and `refresh --json` print."""
        return {
            "done": self.count("SUCCESS"),
            "failed": self.count("FAILURE"),
            "lost": self.count("LOST"),
            "skipped": self.count("SKIPPED"),
            "refused": self.count("REFUSED"),
            "elsewhere": self.count("ELSEWHERE"),
            "rows_read": self.rows_read or 0,
            "rows_written": self.rows_written or 0,
            "rows_rejected": self.rows_rejected or 0,
            "seconds": round(self.seconds, 3),
            "windows": [result.as_json() for result in self.results],
            "unmet": [
                {"need": e.reason.need, "problem": e.reason.problem, "tables": list(e.tables)}
                for e in self.unmet
            ],
        }


_NOT_OURS = ("REFUSED", "ELSEWHERE")


@dataclass
class Tally:
    """The results of a run in progress."""

    results: list[WindowResult] = field(default_factory=list)
    running: dict[int, Attempt] = field(default_factory=dict)
    """Job id → the attempt that has begun and not ended."""
    unmet: list[NeedUnmet] = field(default_factory=list)
    started: float = field(default_factory=time.monotonic)

    def add(self, event: WindowEvent) -> None:
        """Add one event of a window to the summary."""
        match event:
            case WindowStarted(attempt=attempt):
                self.running[attempt.job_id] = attempt
            case WindowSucceeded() | WindowFailed() | WindowLost() | WindowSetBack():
                self.running.pop(event.attempt.job_id, None)
            case NeedUnmet():
                self.unmet.append(event)
            case WindowRefused() | WindowSkipped():
                pass
        if result := build_window_result(event):
            self.results.append(result)

    @property
    def is_idle(self) -> bool:
        """True if nothing was done and no unmet need explains it."""
        return not self.unmet and all(result.status in _NOT_OURS for result in self.results)

    def summarize(self) -> RunSummary:
        """Summarize the results so far."""
        return RunSummary(self.results, time.monotonic() - self.started, self.unmet)
