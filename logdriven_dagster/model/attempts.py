"""Attempts at windows, their steps and their outcomes: the rows of the run log as values."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import Enum

from logdriven_dagster.model.windows import TimeWindow


class Status(str, Enum):
    """`job_log.status` and `step_log.status`. Source: Sharp ETL; SKIPPED is ours."""

    RUNNING = "RUNNING"
    SUCCESS = "SUCCESS"
    FAILURE = "FAILURE"
    SKIPPED = "SKIPPED"
    """Passed over on purpose (`latest_only`): recorded, so never lost."""


class Trigger(str, Enum):
    """Why an attempt exists, `job_log.trigger`."""

    PENDING = "pending"
    """The window was unfinished."""
    REFRESH = "refresh"
    """Somebody asked for a finished window again."""
    LOOKBACK = "lookback"
    """The window runs again because late data may have arrived."""
    UPSTREAM = "upstream"
    """The window runs again because an upstream window was refreshed."""


@dataclass(frozen=True, slots=True)
class Owner:
    """Who runs an attempt; readable in `job_log.owner`."""

    host: str
    pid: int
    started: int
    """The process's creation time in epoch milliseconds, since process numbers come again."""
    dagster_run_id: str | None = None

    def __str__(self) -> str:
        return f"{self.host}:{self.pid}:{self.started}"


@dataclass(frozen=True, slots=True)
class Claim:
    """A request to run one window, with all that its `job_log` row records at the start."""

    table: str
    window: TimeWindow
    period_minutes: int
    incremental_type: str
    project: str
    trigger: Trigger
    owner: Owner
    now: datetime
    """The data clock that the window was planned with."""
    runtime_args: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Attempt:
    """A claimed window: one `job_log` row in status RUNNING that this process owns."""

    job_id: int
    claim: Claim
    attempt_number: int
    """1 for the first attempt at the window."""

    @property
    def table(self) -> str:
        return self.claim.table

    @property
    def window(self) -> TimeWindow:
        return self.claim.window


@dataclass(frozen=True, slots=True)
class Counts:
    """Rows of one step. `None` means that the number does not exist, never that it is unknown."""

    source: int | None = None
    target: int | None = None
    success: int | None = None
    failure: int | None = None


@dataclass(frozen=True, slots=True)
class StepOutcome:
    """How a step ended; `step_log` holds it."""

    status: Status
    counts: Counts = Counts()
    source_type: str | None = None
    target_type: str | None = None
    output: str = ""
    error: str | None = None


@dataclass(frozen=True, slots=True)
class AttemptOutcome:
    """How an attempt ended; `job_log` holds it."""

    status: Status
    application_id: str | None = None
    current_file: str | None = None
    error_count: int = 0
    """Failed tries inside the attempt, kept after a success. Source: Kettle, `error_count`."""
