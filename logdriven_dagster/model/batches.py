"""Processes and batches as values: consumers, producers, and batches per run.

Source: BDRE. A parent process is a table, a sub-process is a step, an enqueuing process is an
upstream table; a run of a process is an attempt (`job_log`), one of a sub-process its `step_log`
row. A batch is the delivery of one successful attempt, or one file, to each consuming step.
"""

import re
import sys
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import IntEnum
from functools import cache
from zoneinfo import ZoneInfo

from logdriven_dagster.errors import LifeCycleError, UsageError
from logdriven_dagster.model.files import RegisteredFile
from logdriven_dagster.model.windows import Slice, TimeWindow

ALL_BATCHES = sys.maxsize
"""Value of `max_batches` for all available batches."""
PSEUDO_BATCH = 0
"""Batch of a process without enqueuers. Source: BDRE, batch 0."""
_MOST_DATES = 31
_LIKE = "like:"


class BatchState(IntEnum):
    """State in `batch_queue.batch_state`. Source: BDRE, BATCH_STATUS; FAILED is an addition."""

    NEW = 0
    PROCESSED = 1
    ACCESSED = 2
    FAILED = 3


@dataclass(frozen=True, slots=True)
class Enqueuer:
    """A table whose batches a step consumes, and the limit of each intake."""

    table: str
    cut_pattern: str | None = None
    """A run takes batches up to the first whose marking matches; see `is_marking_match`."""
    required: bool = True
    """True if a run needs a batch from it. Missing files are subject to the table's `on_empty`."""

    def __post_init__(self) -> None:
        try:
            compile_pattern(self.cut_pattern or "")
        except ValueError as error:
            problem = f"the cut_pattern {self.cut_pattern!r} of {self.table} is {error}"
            raise UsageError(
                f"{problem}; write a regular expression, or like: and a LIKE"
            ) from None


@dataclass(frozen=True, slots=True)
class SubProcess:
    """A step of a table, as BDRE registers it."""

    step: str
    enqueuers: tuple[Enqueuer, ...] = ()
    can_recover: bool = True
    """True if a run may resume after this step when a later step of the previous run failed."""
    next: tuple[str, ...] = ()
    """The steps that follow; several are a fork."""


@dataclass(frozen=True, slots=True)
class Route:
    """Route of batches from one table to one step of another."""

    table: str
    step: str
    enqueuer: Enqueuer
    zone: ZoneInfo
    shared: bool = False
    """True if several steps of the table consume the source; otherwise a step may be renamed."""

    @property
    def source(self) -> str:
        return self.enqueuer.table

    def __str__(self) -> str:
        return f"step {self.step} of {self.table}"


@dataclass(frozen=True, slots=True)
class Process:
    """A table and its steps, as BDRE registers them."""

    table: str
    steps: tuple[SubProcess, ...]
    zone: ZoneInfo

    @property
    def routes(self) -> tuple[Route, ...]:
        sources = [enqueuer.table for sub in self.steps for enqueuer in sub.enqueuers]
        return tuple(
            Route(self.table, sub.step, enqueuer, self.zone, sources.count(enqueuer.table) > 1)
            for sub in self.steps
            for enqueuer in sub.enqueuers
        )

    def sub(self, step: str) -> SubProcess:
        """Return one of the steps. Raises LifeCycleError 103 for any other name."""
        for sub in self.steps:
            if sub.step == step:
                return sub
        known = ", ".join(sub.step for sub in self.steps)
        raise LifeCycleError(103, f"{self.table} has no step {step!r}; its steps are {known}")


class Processes:
    """The processes of a project, by name and by the tables they consume. Source: BDRE, PROCESS."""

    def __init__(self, processes: Iterable[Process]) -> None:
        self._parents = {process.table: process for process in processes}
        self._consumers: dict[str, list[Route]] = {}
        for process in self._parents.values():
            for route in process.routes:
                if route.source != route.table:  # a table enqueues its own files
                    self._consumers.setdefault(route.source, []).append(route)

    def parent(self, table: str) -> Process:
        """Return a process by table name. Raises LifeCycleError 102 if there is none."""
        if table in self._parents:
            return self._parents[table]
        raise LifeCycleError(102, f"table {table!r} is not registered; give a table, not a step")

    def exchanges(self, table: str) -> bool:
        """Return True if a table takes batches from other tables, or makes batches for them."""
        return bool(self.consumers(table) or self.parent(table).routes)

    def consumers(self, table: str) -> tuple[Route, ...]:
        """Return the routes from a table to the consumers of its batches."""
        return tuple(self._consumers.get(table, ()))


@dataclass(frozen=True, slots=True)
class Batch:
    """A row of the queue: a window or files of an upstream table, for one consuming step."""

    queue_id: int
    batch_id: int
    step: str
    source: str
    source_job_id: int | None
    marking: str
    """Comma-separated dates, or NAME@date."""
    span: tuple[int, int] | None
    """Range of its window on the axis of the producing table; None for files."""
    target_batch_id: int | None = None
    """Batch of the run that has taken it."""


@dataclass(frozen=True, slots=True)
class Intake:
    """The batches that one step takes. Source: BDRE, the maps that InitJob returns."""

    step: str
    batches: tuple[Batch, ...]
    files: tuple[RegisteredFile, ...] = ()

    @property
    def min_batch(self) -> int:
        return min(batch.batch_id for batch in self.batches)

    @property
    def max_batch(self) -> int:
        return max(batch.batch_id for batch in self.batches)

    @property
    def min_marking(self) -> str:
        return min(self._list_dates, default="")

    @property
    def max_marking(self) -> str:
        return max(self._list_dates, default="")

    @property
    def source_job_ids(self) -> tuple[int, ...]:
        """The attempts that made the batches."""
        found = {batch.source_job_id for batch in self.batches}
        return tuple(sorted(job_id for job_id in found if job_id is not None))

    @property
    def _list_dates(self) -> list[str]:
        return [mark.rpartition("@")[2] for mark in _split_marks(b.marking for b in self.batches)]


@dataclass(frozen=True, slots=True)
class TakenBatches:
    """The batches that a run takes, and the one that it makes. Source: BDRE, InitJob."""

    target_batch_id: int | None = None
    """Batch that a success makes, or None if no step consumes it."""
    intakes: tuple[Intake, ...] = ()
    last_recoverable_step: tuple[str, ...] = ()
    """Steps at which a run resumes after a failed one; empty to start from the beginning."""

    @property
    def batches(self) -> tuple[Batch, ...]:
        return tuple(batch for intake in self.intakes for batch in intake.batches)

    @property
    def target_marking(self) -> str:
        return merge_markings(batch.marking for batch in self.batches)

    @property
    def bounds(self) -> tuple[str, str]:
        """The first and last batch as `data_range_start` and `_end`; empty if there is none."""
        numbers = [batch.batch_id for batch in self.batches]
        return (str(min(numbers)), str(max(numbers))) if numbers else ("", "")


@cache
def compile_pattern(pattern: str) -> re.Pattern[str]:
    """Compile a cut pattern into a regular expression for searching. Raises ValueError if invalid.

    After `like:`, the pattern is that of SQL's LIKE for the whole marking, as in BDRE: `%` matches
    any text, `_` one character, and a backslash makes the next character literal.
    """
    if pattern.startswith(_LIKE):
        parts = re.findall(r"\\.|.", pattern.removeprefix(_LIKE), re.DOTALL)
        texts = {"%": ".*", "_": "."}
        made = "".join(texts.get(part) or re.escape(part[-1]) for part in parts)
        return re.compile(rf"\A{made}\Z", re.DOTALL)
    try:
        return re.compile(pattern)
    except re.error as error:
        raise ValueError(f"not a regular expression: {error}") from None


def is_marking_match(pattern: str, marking: str) -> bool:
    """Return True if a marking matches the pattern that ends an intake."""
    return compile_pattern(pattern).search(marking) is not None


def cut(
    batches: Sequence[Batch], pattern: str | None, max_batches: int | None
) -> tuple[Batch, ...]:
    """Return the batches, oldest first, that one run takes.

    With a pattern: all batches up to and including the first whose marking matches, none without a
    match. Without one: the oldest `max_batches`, or all. Source: BDRE, batch_cut_pattern.
    """
    if pattern is None:
        return tuple(batches[:max_batches])
    for number, batch in enumerate(batches, 1):
        if is_marking_match(pattern, batch.marking):
            return tuple(batches[:number])
    return ()


def reach(markings: Sequence[str], pattern: str | None) -> int:
    """Return the number of batches, oldest first, that runs can take before more arrive.

    With a pattern: the batches up to the last match.
    """
    if pattern is None:
        return len(markings)
    return max(
        (n for n, mark in enumerate(markings, 1) if is_marking_match(pattern, mark)), default=0
    )


def find_recoverable(process: Process, succeeded: Collection[str]) -> tuple[str, ...]:
    """Return the steps at which to resume, given the steps that succeeded in a failed run.

    These are the successors of the last `can_recover` step before the failure; for an incomplete
    fork, all of its branches. Empty to start from the beginning. Source: BDRE,
    last_recoverable_sp_id.
    """
    found: tuple[str, ...] = ()
    level = process.steps[:1]
    while level and all(sub.step in succeeded for sub in level):
        following = tuple(dict.fromkeys(step for sub in level for step in sub.next))
        if all(sub.can_recover for sub in level):
            found = following
        level = tuple(process.sub(step) for step in following)
    return found


def merge_markings(markings: Iterable[str]) -> str:
    """Merge several markings into one: every mark once, sorted."""
    return ",".join(sorted(set(_split_marks(markings))))


def build_marking(window: TimeWindow, zone: ZoneInfo, now: datetime) -> str:
    """Return the dates that a window covers in a zone; the last also as `EOD@date` if complete.

    More than 31 dates are reduced to the first and the last. A key, offset or batch range has the
    date of the data clock `now`. Source: BDRE, batch_marking.
    """
    if isinstance(window, Slice):
        return f"{now.astimezone(zone):%Y-%m-%d}"
    start, end = (bound.astimezone(zone) for bound in (window.start, window.end))
    last = (end - timedelta(microseconds=1)).date()
    days = [start.date() + timedelta(days=n) for n in range((last - start.date()).days + 1)]
    shown = days if len(days) <= _MOST_DATES else [days[0], last]
    ended = [f"EOD@{last}"] if (end.hour, end.minute, end.second) == (0, 0, 0) else []
    return ",".join([*map(str, shown), *ended])


def _split_marks(markings: Iterable[str]) -> Iterator[str]:
    for marking in markings:
        yield from (mark for mark in marking.split(",") if mark)
