"""Processes and batches as values: who consumes what of whom, and how much at once.

Source: BDRE. A parent process is a table, a sub-process is a step, an enqueuing process is an
upstream table; a run of a process is an attempt (`job_log`), one of a sub-process its `step_log`
row. A batch is what one successful attempt, or one file, hands to each step that consumes it.
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
"""For `max_batches`: whatever there is."""
PSEUDO_BATCH = 0
"""What a process without enqueuers consumes. Source: BDRE, batch 0."""
_MOST_DATES = 31
_LIKE = "like:"


class BatchState(IntEnum):
    """`batch_queue.batch_state`. Source: BDRE, BATCH_STATUS; FAILED is ours."""

    NEW = 0
    PROCESSED = 1
    ACCESSED = 2
    FAILED = 3


@dataclass(frozen=True, slots=True)
class Enqueuer:
    """A table whose batches a step consumes, and where a run cuts its intake."""

    table: str
    cut_pattern: str | None = None
    """A run takes all up to the first batch whose marking has it; see `marking_matches`."""
    required: bool = True
    """Whether a run needs a batch of it. No new file is a matter of the table's `on_empty`."""

    def __post_init__(self) -> None:
        try:
            compiled_pattern(self.cut_pattern or "")
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
    """Whether a run may go on after this step when the one before failed later on."""
    next: tuple[str, ...] = ()
    """The steps that follow; several are a fork."""


@dataclass(frozen=True, slots=True)
class Route:
    """How the batches of one table come to one step of another."""

    table: str
    step: str
    enqueuer: Enqueuer
    zone: ZoneInfo
    shared: bool = False
    """Whether several steps of the table consume the source; otherwise a step may be renamed."""

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
        """One of its steps; LifeCycleError 103 for any other name."""
        for sub in self.steps:
            if sub.step == step:
                return sub
        known = ", ".join(sub.step for sub in self.steps)
        raise LifeCycleError(103, f"{self.table} has no step {step!r}; its steps are {known}")


class Processes:
    """The processes of a project, by name and by what they consume. Source: BDRE, PROCESS."""

    def __init__(self, processes: Iterable[Process]) -> None:
        self._parents = {process.table: process for process in processes}
        self._consumers: dict[str, list[Route]] = {}
        for process in self._parents.values():
            for route in process.routes:
                if route.source != route.table:  # a table enqueues its files by itself
                    self._consumers.setdefault(route.source, []).append(route)

    def parent(self, table: str) -> Process:
        """A process; LifeCycleError 102 if there is none of this name."""
        if table in self._parents:
            return self._parents[table]
        raise LifeCycleError(102, f"no table {table!r} is registered; name a table, not a step")

    def exchanges(self, table: str) -> bool:
        """Whether a table takes batches from others, or makes some for them."""
        return bool(self.consumers(table) or self.parent(table).routes)

    def consumers(self, table: str) -> tuple[Route, ...]:
        """The routes by which the batches of a table go on."""
        return tuple(self._consumers.get(table, ()))


@dataclass(frozen=True, slots=True)
class Batch:
    """A row of the queue: a window or files of an upstream, for one step of a consumer."""

    queue_id: int
    batch_id: int
    step: str
    source: str
    source_job_id: int | None
    marking: str
    """Dates, or NAME@date, with commas between."""
    span: tuple[int, int] | None
    """The place of its window among those of the table that made it; None for files."""
    target_batch_id: int | None = None
    """The batch of the run that has taken it."""


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
        return min(self._dates, default="")

    @property
    def max_marking(self) -> str:
        return max(self._dates, default="")

    @property
    def source_job_ids(self) -> tuple[int, ...]:
        """The attempts that made the batches."""
        found = {batch.source_job_id for batch in self.batches}
        return tuple(sorted(job_id for job_id in found if job_id is not None))

    @property
    def _dates(self) -> list[str]:
        return [mark.rpartition("@")[2] for mark in _marks(b.marking for b in self.batches)]


@dataclass(frozen=True, slots=True)
class TakenBatches:
    """The batches that a run takes, and the one that it makes. Source: BDRE, InitJob."""

    target_batch_id: int | None = None
    """The batch that a success makes; None where nobody consumes it."""
    intakes: tuple[Intake, ...] = ()
    last_recoverable_step: tuple[str, ...] = ()
    """Where a run goes on after one that failed; empty: at its beginning."""

    @property
    def batches(self) -> tuple[Batch, ...]:
        return tuple(batch for intake in self.intakes for batch in intake.batches)

    @property
    def target_marking(self) -> str:
        return union_of(batch.marking for batch in self.batches)

    @property
    def bounds(self) -> tuple[str, str]:
        """The first and the last batch as `data_range_start` and `_end`; empty if there is none."""
        numbers = [batch.batch_id for batch in self.batches]
        return (str(min(numbers)), str(max(numbers))) if numbers else ("", "")


@cache
def compiled_pattern(pattern: str) -> re.Pattern[str]:
    """Return a cut pattern as a regular expression that is searched; ValueError if it is none.

    After `like:` it is a pattern of SQL's LIKE for the whole marking, as BDRE has it: `%` stands
    for any text, `_` for one character, and a backslash makes the character after it literal.
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


def marking_matches(pattern: str, marking: str) -> bool:
    """Whether a marking has the mark at which a run cuts its intake."""
    return compiled_pattern(pattern).search(marking) is not None


def cut(
    batches: Sequence[Batch], pattern: str | None, max_batches: int | None
) -> tuple[Batch, ...]:
    """The batches that one run takes of these, oldest first.

    With a pattern all up to and including the first whose marking has it, none if none has;
    otherwise the oldest `max_batches`, or all that there are. Source: BDRE, batch_cut_pattern.
    """
    if pattern is None:
        return tuple(batches[:max_batches])
    for number, batch in enumerate(batches, 1):
        if marking_matches(pattern, batch.marking):
            return tuple(batches[:number])
    return ()


def reach(markings: Sequence[str], pattern: str | None) -> int:
    """How many of the batches with these markings, oldest first, runs can take before others come.

    With a pattern those up to the last that has it.
    """
    if pattern is None:
        return len(markings)
    return max(
        (n for n, mark in enumerate(markings, 1) if marking_matches(pattern, mark)), default=0
    )


def recoverable(process: Process, succeeded: Collection[str]) -> tuple[str, ...]:
    """The steps with which to go on, given those that succeeded in a run that failed.

    What follows on the last `can_recover` step before the failure; of a fork that is not through
    all branches. Empty: at the beginning. Source: BDRE, last_recoverable_sp_id.
    """
    found: tuple[str, ...] = ()
    level = process.steps[:1]
    while level and all(sub.step in succeeded for sub in level):
        following = tuple(dict.fromkeys(step for sub in level for step in sub.next))
        if all(sub.can_recover for sub in level):
            found = following
        level = tuple(process.sub(step) for step in following)
    return found


def union_of(markings: Iterable[str]) -> str:
    """One marking of several: every mark once, sorted."""
    return ",".join(sorted(set(_marks(markings))))


def marking_of(window: TimeWindow, zone: ZoneInfo, now: datetime) -> str:
    """The dates that a window covers in a zone, the last one also as `EOD@date` if its day is over.

    Of more than 31 dates the first and the last. A slice has no time: its date is that of the data
    clock, `now`. Source: BDRE, batch_marking.
    """
    if isinstance(window, Slice):
        return f"{now.astimezone(zone):%Y-%m-%d}"
    start, end = (bound.astimezone(zone) for bound in (window.start, window.end))
    last = (end - timedelta(microseconds=1)).date()
    days = [start.date() + timedelta(days=n) for n in range((last - start.date()).days + 1)]
    shown = days if len(days) <= _MOST_DATES else [days[0], last]
    ended = [f"EOD@{last}"] if (end.hour, end.minute, end.second) == (0, 0, 0) else []
    return ",".join([*map(str, shown), *ended])


def _marks(markings: Iterable[str]) -> Iterator[str]:
    for marking in markings:
        yield from (mark for mark in marking.split(",") if mark)
