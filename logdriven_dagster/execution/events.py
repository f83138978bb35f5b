"""Events of running windows, as values: the CLI prints them, Dagster records them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from logdriven_dagster.errors import AttemptLostError, RefusedError, UnmetNeedError
from logdriven_dagster.model.attempts import Attempt, Counts
from logdriven_dagster.model.lineage import QueryLineage
from logdriven_dagster.model.runs import Published, Staged
from logdriven_dagster.model.source_rows import SourceRows
from logdriven_dagster.model.windows import TimeWindow


@dataclass(frozen=True, slots=True)
class WindowStarted:
    """A window was claimed; its attempt is RUNNING."""

    attempt: Attempt
    behind: int = 0
    """The number of windows that begin after it in the same pass, before any work is done."""


@dataclass(frozen=True, slots=True)
class WindowSucceeded:
    """A window is published and its attempt is SUCCESS."""

    attempt: Attempt
    steps: tuple[Staged, ...]
    published: tuple[Published, ...]
    seconds: float
    error_count: int = 0
    overdue: bool = False
    """True if it took longer than the table's `timeout`."""
    checks: Mapping[str, bool] = field(default_factory=dict)
    """Check → True if it passed; checks that did not run are missing."""
    lineage: tuple[QueryLineage, ...] = ()
    """The lineage of its queries, in the order of the steps; empty if it is unknown."""
    source_rows: SourceRows | None = None
    """The rows of a source without new ones, if some belong to no window."""

    @property
    def counts(self) -> tuple[Counts, ...]:
        """The counts of its steps, and of a source without new rows."""
        of_steps = tuple(step.counts for step in self.steps)
        return (
            of_steps
            if (rows := self.source_rows) is None
            else (*of_steps, Counts(outside=rows.outside))
        )


@dataclass(frozen=True, slots=True)
class WindowFailed:
    """A window failed: nothing of it was published and its attempt is FAILURE."""

    attempt: Attempt
    step_id: str
    error: str
    """The text of `step_log.error`, free of secrets."""
    seconds: float
    steps: tuple[Staged, ...] = ()
    """The steps that had been staged, with their counts and results."""
    checks: Mapping[str, bool] = field(default_factory=dict)
    """Check → True if it passed; checks that did not run are missing."""
    stands: bool = False
    """True if only a refresh failed: the window remains finished by the rows published before."""


@dataclass(frozen=True, slots=True)
class WindowLost:
    """The runner has lost the attempt: it was discarded, replaced, or taken over.

    Nothing of it was published after that.
    """

    attempt: Attempt
    reason: AttemptLostError


@dataclass(frozen=True, slots=True)
class WindowSetBack:
    """A window that ran in one pass with others, which did not succeed as a whole.

    The attempt is DISCARDED; the window is pending as before and runs in a smaller pass next.
    """

    attempt: Attempt
    reason: str
    """The text of `step_log.error`, free of secrets."""


@dataclass(frozen=True, slots=True)
class WindowRefused:
    """A requested window may not run; nothing was changed."""

    table: str
    window: TimeWindow
    reason: RefusedError


@dataclass(frozen=True, slots=True)
class NeedUnmet:
    """A requirement of tables is not met; none of their windows was claimed."""

    tables: tuple[str, ...]
    """The tables that had pending windows."""
    reason: UnmetNeedError
    """Free of secrets."""


@dataclass(frozen=True, slots=True)
class WindowSkipped:
    """A window after a failed one that was not attempted, or one recorded as SKIPPED."""

    table: str
    window: TimeWindow
    reason: str


def rows_of(steps: Sequence[Staged]) -> dict[str, Any]:
    """Return the summed row counts of steps, named as in log lines and spans; None if unknown."""
    counts = Counts.sum(step.counts for step in steps)
    return {
        "rows_read": counts.source,
        "rows_written": counts.target,
        "rows_rejected": counts.failure,
        "rows_malformed": counts.malformed,
    }


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
