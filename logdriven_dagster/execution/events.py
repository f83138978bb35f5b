"""What happens while windows run, as values: the CLI prints them, Dagster records them."""

from dataclasses import dataclass
from typing import TypeAlias

from logdriven_dagster.errors import AttemptLostError, RefusedError
from logdriven_dagster.model.attempts import Attempt
from logdriven_dagster.model.runs import Published, Staged
from logdriven_dagster.model.windows import TimeWindow


@dataclass(frozen=True, slots=True)
class WindowStarted:
    """A window was claimed; its attempt is RUNNING."""

    attempt: Attempt


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


@dataclass(frozen=True, slots=True)
class WindowFailed:
    """Nothing of the window was published and its attempt is FAILURE."""

    attempt: Attempt
    step_id: str
    error: str
    """As in `step_log.error`: free of secrets."""
    seconds: float


@dataclass(frozen=True, slots=True)
class WindowLost:
    """The attempt is not this runner's any more: discarded, replaced, or taken over.

    Nothing of it was published after that.
    """

    attempt: Attempt
    reason: AttemptLostError


@dataclass(frozen=True, slots=True)
class WindowRefused:
    """A window that was asked for may not run; nothing was changed."""

    table: str
    window: TimeWindow
    reason: RefusedError


@dataclass(frozen=True, slots=True)
class WindowSkipped:
    """A window behind a failed one that was not attempted, or one recorded as SKIPPED."""

    table: str
    window: TimeWindow
    reason: str


WindowEvent: TypeAlias = (
    WindowStarted | WindowSucceeded | WindowFailed | WindowLost | WindowRefused | WindowSkipped
)
