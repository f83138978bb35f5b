"""What happens while windows run, as values: the CLI prints them, Dagster records them."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from logdriven_dagster.errors import AttemptLostError, RefusedError, UnmetNeedError
from logdriven_dagster.model.attempts import Attempt, Status
from logdriven_dagster.model.job_runs import JobRun, JobStepResult, RunStep
from logdriven_dagster.model.lineage import QueryLineage
from logdriven_dagster.model.runs import Published, Staged
from logdriven_dagster.model.windows import TimeWindow
from logdriven_dagster.planning import Plan


@dataclass(frozen=True, slots=True)
class WindowStarted:
    """A window was claimed; its attempt is RUNNING."""

    attempt: Attempt
    behind: int = 0
    """How many more windows begin with it; they are told of before any work is done."""


@dataclass(frozen=True, slots=True)
class WindowSucceeded:
    """A window is published and its attempt is SUCCESS."""

    attempt: Attempt
    steps: tuple[Staged, ...]
    published: tuple[Published, ...]
    seconds: float
    error_count: int = 0
    overdue: bool = False
    """Whether it took longer than the table's `timeout`."""
    checks: Mapping[str, bool] = field(default_factory=dict)
    """Check → whether it passed; those that were not asked are missing."""
    lineage: tuple[QueryLineage, ...] = ()
    """The lineage of its queries, in the order of the steps; empty where it is not known."""


@dataclass(frozen=True, slots=True)
class WindowFailed:
    """Nothing of the window was published and its attempt is FAILURE."""

    attempt: Attempt
    step_id: str
    error: str
    """The text of `step_log.error`, free of secrets."""
    seconds: float
    steps: tuple[Staged, ...] = ()
    """What had been staged, for what was found in it."""
    checks: Mapping[str, bool] = field(default_factory=dict)
    """Check → whether it passed; those that were not asked are missing."""
    stands: bool = False
    """Whether only a refresh failed: the window is finished by what was published before."""


@dataclass(frozen=True, slots=True)
class WindowLost:
    """The attempt is not this runner's any more: discarded, replaced, or taken over.

    Nothing of it was published after that.
    """

    attempt: Attempt
    reason: AttemptLostError


@dataclass(frozen=True, slots=True)
class WindowSetBack:
    """A window that ran in one pass with others, which did not succeed as a whole.

    The attempt is DISCARDED; the window is pending as before and runs by itself next.
    """

    attempt: Attempt
    reason: str
    """The text of `step_log.error`, free of secrets."""


@dataclass(frozen=True, slots=True)
class WindowRefused:
    """A window that was asked for may not run; nothing was changed."""

    table: str
    window: TimeWindow
    reason: RefusedError


@dataclass(frozen=True, slots=True)
class NeedUnmet:
    """Something that tables need is broken; nothing of theirs was claimed."""

    tables: tuple[str, ...]
    """The tables that had something to run."""
    reason: UnmetNeedError
    """Free of secrets."""


@dataclass(frozen=True, slots=True)
class WindowSkipped:
    """A window behind a failed one that was not attempted, or one recorded as SKIPPED."""

    table: str
    window: TimeWindow
    reason: str


@dataclass(frozen=True, slots=True)
class JobStarted:
    """A run of a job has begun; its row is RUNNING."""

    run: JobRun
    notes: tuple[str, ...] = ()
    """What is left out, and why; whoever reads the log of the run should know."""
    plan: Plan | None = None
    """What a standard job has to do."""


@dataclass(frozen=True, slots=True)
class StepStarted:
    """A step of a maintenance job has begun."""

    step: RunStep


@dataclass(frozen=True, slots=True)
class StepTriedAgain:
    """A try at a step failed, and another one follows."""

    step: RunStep
    error: str
    error_count: int


@dataclass(frozen=True, slots=True)
class StepEnded:
    """A step has succeeded, or failed for good, which ends the run."""

    step: RunStep
    result: JobStepResult
    seconds: float


@dataclass(frozen=True, slots=True)
class JobEnded:
    """The run is SUCCESS or FAILURE in the log."""

    run: JobRun
    status: Status
    error: str | None
    seconds: float
    blocked: tuple[str, ...] = ()
    """The tables that it could not go on with, each with its first pending window and why."""


def rows_of(steps: Sequence[Staged]) -> dict[str, Any]:
    """The rows of some steps added up, as lines and spans call them; None where nobody counts."""
    counts = [step.counts for step in steps]
    return {
        "rows_read": _sum(count.source for count in counts),
        "rows_written": _sum(count.target for count in counts),
        "rows_rejected": _sum(count.failure for count in counts),
        "rows_malformed": _sum(count.malformed for count in counts),
    }


def _sum(values: Iterable[int | None]) -> int | None:
    known = [value for value in values if value is not None]
    return sum(known) if known else None


WindowEvent: TypeAlias = (
    WindowStarted
    | WindowSucceeded
    | WindowFailed
    | WindowLost
    | WindowSetBack
    | WindowRefused
    | WindowSkipped
    | NeedUnmet
)
StepEvent: TypeAlias = StepStarted | StepTriedAgain | StepEnded
JobEvent: TypeAlias = JobStarted | StepEvent | JobEnded | WindowEvent
