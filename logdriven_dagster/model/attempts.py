"""Attempts at windows, their steps and their outcomes: the rows of the run log as values."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import Enum

from logdriven_dagster.model.batches import TakenBatches
from logdriven_dagster.model.windows import Reads, TimeWindow, as_instant


class Status(str, Enum):
    """`job_log.status` and `step_log.status`. Sources: Sharp ETL; Kylin, executable states."""

    READY = "READY"
    """A step whose turn has not come."""
    RUNNING = "RUNNING"
    """An attempt in this state holds the lease of its window."""
    SUCCESS = "SUCCESS"
    FAILURE = "FAILURE"
    DISCARDED = "DISCARDED"
    """Stopped on purpose: interrupted, terminated, or discarded by an operator."""
    SKIPPED = "SKIPPED"
    """Passed over on purpose, by `latest_only`, a condition that does not apply, or an empty step
    before: recorded, so never lost."""


TRANSITIONS: Mapping[Status, frozenset[Status]] = {
    Status.READY: frozenset({Status.RUNNING, Status.SKIPPED, Status.DISCARDED}),
    Status.RUNNING: frozenset(
        {Status.SUCCESS, Status.FAILURE, Status.DISCARDED, Status.SKIPPED, Status.RUNNING}
    ),
    Status.SUCCESS: frozenset(),
    Status.FAILURE: frozenset(),
    Status.DISCARDED: frozenset(),
    Status.SKIPPED: frozenset(),
}
"""What may follow on what within one row; every write of a status is guarded by it.

RUNNING follows itself where a step is tried again. Source: Kylin, READY → RUNNING → an end.
"""


def before(status: Status) -> frozenset[Status]:
    """The states from which a row may come to this one."""
    return frozenset(first for first, then in TRANSITIONS.items() if status in then)


class OnRunning(str, Enum):
    """What a start does about a window that is running elsewhere. Source: Sharp ETL."""

    SKIP = "skip"
    """Leave it to the other runner."""
    FAIL = "fail"
    """Refuse to start."""
    REPLACE = "replace"
    """End the other attempt, which can neither publish nor finish then, and start anew."""


class Trigger(str, Enum):
    """Why an attempt exists, `job_log.run_trigger`."""

    PENDING = "pending"
    """The window was unfinished."""
    REFRESH = "refresh"
    """Somebody asked for a finished window again."""
    LOOKBACK = "lookback"
    """The window runs again because late data may have arrived."""
    UPSTREAM = "upstream"
    """The window runs again because an upstream window was refreshed."""
    TAKEOVER = "takeover"
    """Nothing ran: the system before ours has done it, says its log."""
    SKIP = "skip"
    """Nothing ran: an operator has skipped the window, or made a skipped one pending again."""
    OBSERVED = "observed"
    """Nothing ran here: an asset that is not ours was materialized, says Dagster."""


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

    @classmethod
    def parse(cls, text: str | None, dagster_run_id: str | None = None) -> "Owner | None":
        """The owner in a `job_log` row; None for one that was written by hand."""
        host, _, numbers = (text or "").partition(":")
        pid, _, started = numbers.partition(":")
        if not (pid.isdigit() and started.isdigit()):
            return None
        return cls(host, int(pid), int(started), dagster_run_id)


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
    steps: tuple[str, ...]
    """The steps that the attempt will take, in order."""
    runtime_args: Mapping[str, str] = field(default_factory=dict)
    lease: timedelta = timedelta(minutes=1)
    """How long the attempt may go without a heartbeat before others take its window over."""
    on_running: OnRunning = OnRunning.SKIP
    definition: str | None = None
    """A digest of all that decides what the steps do; an attempt of the same one can be resumed."""
    reads: Mapping[str, Reads] = field(default_factory=dict)
    """Upstream table → what of it is read."""
    version: int | None = None
    """The version of the table's definition in the registry; None if it is not registered."""
    other_version: str | None = None
    """Which version it is, in words, where the table's file says otherwise."""
    parameters: Mapping[str, str | int | float | bool] = field(default_factory=dict)
    """The values that the steps can name; secrets as `${env:NAME}`."""
    job_run_id: int | None = None
    """The run of a job that the attempt belongs to."""
    seen_until: datetime | None = None
    """With `lookback`: up to which moment of data time all that is read is there; None: no row
    can come later than that."""
    is_late: bool = False
    """Whether tables downstream may have run without this window, as after an earlier
    `default_start` or a later `end`."""
    replaces: tuple[int, ...] = ()
    """The jobs of finished windows of an earlier grid that lie within this one."""
    name: str = ""
    """What the log calls the window where that is not its text in the project's zone; empty: it is.

    See `runlog.attempts.names`.
    """

    def __post_init__(self) -> None:
        object.__setattr__(self, "now", as_instant(self.now))
        if self.seen_until is not None:
            object.__setattr__(self, "seen_until", as_instant(self.seen_until))


_NOTHING = TakenBatches()


@dataclass(frozen=True, slots=True)
class Attempt:
    """A claimed window: one `job_log` row in status RUNNING, which is the lease on the window."""

    job_id: int
    claim: Claim
    attempt_number: int
    """1 for the first attempt at the window."""
    fencing_token: int
    """Greater than that of any earlier attempt at the window; guards every later write."""
    previous: Status | None = None
    """How the attempt before this one ended."""
    previous_id: int | None = None
    """Its job."""
    replaced: Owner | None = None
    """Whose running attempt this one ended."""
    staged: Mapping[str, str] = field(default_factory=dict)
    """Step → the durable result that a dead attempt left behind, `step_log.staged`."""
    standing: int | None = None
    """The job that has finished the window before, and counts as long as this one, which is a
    refresh then, has changed nothing."""
    taken: TakenBatches = _NOTHING
    """The batches that it takes and makes."""

    def __str__(self) -> str:
        return f"job {self.job_id}, {self.table} {self.window}"

    @property
    def row_id(self) -> int:
        return self.job_id

    @property
    def lease(self) -> timedelta:
        return self.claim.lease

    @property
    def table(self) -> str:
        return self.claim.table

    @property
    def window(self) -> TimeWindow:
        return self.claim.window

    @property
    def was_finished(self) -> bool:
        """Whether an attempt before it has finished the window, so that this one is a refresh."""
        return self.standing is not None


@dataclass(frozen=True, slots=True)
class Counts:
    """Rows of one step. `None`: there is no such number, or it could not be had (`output` says)."""

    source: int | None = None
    target: int | None = None
    success: int | None = None
    failure: int | None = None
    inserted: int | None = None
    """How many rows of `target` had keys that were new to an upsert's target."""
    updated: int | None = None
    """How many rows of `target` replaced others in an upsert's target."""
    malformed: int | None = None
    """Rows that a source could not read and was allowed to leave out or to fill with NULLs."""


@dataclass(frozen=True, slots=True)
class StepOutcome:
    """How a step ended; `step_log` holds it."""

    status: Status
    counts: Counts = Counts()
    source_type: str | None = None
    target_type: str | None = None
    output: str = ""
    error: str | None = None


CURRENT_FILE_LENGTH = 1024
"""How many characters of the names of files `job_log.current_file` holds."""


@dataclass(frozen=True, slots=True)
class AttemptOutcome:
    """How an attempt ended; `job_log` holds it."""

    status: Status
    application_id: str | None = None
    current_file: str | None = None
    error_count: int = 0
    """Failed tries inside the attempt, kept after a success. Source: Kettle, `error_count`."""
    published_nothing: bool = False
    """Whether an attempt without success knows that it had not begun to publish."""
