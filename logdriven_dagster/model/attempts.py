"""Attempts at windows, their steps and their outcomes: rows of the run log as values."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from datetime import datetime, timedelta
from enum import Enum

from logdriven_dagster.model.batches import TakenBatches
from logdriven_dagster.model.windows import Reads, TimeWindow, normalize_instant


class Status(str, Enum):
    """Status in `job_log` and `step_log`. Sources: Sharp ETL; Kylin, executable states."""

    READY = "READY"
    """A step that has not started."""
    RUNNING = "RUNNING"
    """An attempt in this state holds the lease of its window."""
    SUCCESS = "SUCCESS"
    FAILURE = "FAILURE"
    DISCARDED = "DISCARDED"
    """Stopped deliberately: interrupted, terminated, or discarded by an operator."""
    SKIPPED = "SKIPPED"
    """Skipped deliberately, and recorded.

    By `latest_only`, a condition that does not apply, or an earlier step without rows.
    """


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
"""Valid transitions of a row's status; every write of a status is guarded by it.

RUNNING follows itself when a step is retried. Source: Kylin, READY → RUNNING → an end.
"""


def list_statuses_before(status: Status) -> frozenset[Status]:
    """Return the statuses from which a row may change to `status`."""
    return frozenset(first for first, then in TRANSITIONS.items() if status in then)


class OnRunning(str, Enum):
    """Action of a start whose window is already running. Source: Sharp ETL."""

    SKIP = "skip"
    """Leave the window to the other runner."""
    FAIL = "fail"
    """Raise an error."""
    REPLACE = "replace"
    """End the other attempt, which can no longer publish or finish, and start a new one."""


class Trigger(str, Enum):
    """Reason why an attempt exists, `job_log.run_trigger`."""

    PENDING = "pending"
    """The window was unfinished."""
    REFRESH = "refresh"
    """A user asked for a rerun of a finished window."""
    LOOKBACK = "lookback"
    """The window runs again because late data may have arrived."""
    UPSTREAM = "upstream"
    """The window runs again because an upstream window was refreshed."""
    RESTATE = "restate"
    """The window runs again because an older version of its table made it."""
    SOURCE = "source"
    """The window runs again because files of its source changed after it ran."""
    TAKEOVER = "takeover"
    """Not run: the previous system's log records the window as finished."""
    SKIP = "skip"
    """Not run: an operator skipped the window, or made a skipped one pending again."""
    OBSERVED = "observed"
    """Not run: Dagster reported that an external asset was materialized."""


@dataclass(frozen=True, slots=True)
class Owner:
    """The process that runs an attempt, in the readable form of `job_log.owner`."""

    host: str
    pid: int
    started: int
    """Creation time of the process in epoch milliseconds, since process IDs are reused."""
    dagster_run_id: str | None = None

    def __str__(self) -> str:
        return f"{self.host}:{self.pid}:{self.started}"

    @classmethod
    def parse(cls, text: str | None, dagster_run_id: str | None = None) -> "Owner | None":
        """Parse the owner of a `job_log` row; returns None for text written by hand."""
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
    """The data clock with which the window was planned."""
    steps: tuple[str, ...]
    """The steps of the attempt, in order."""
    runtime_args: Mapping[str, str] = field(default_factory=dict)
    lease: timedelta = timedelta(minutes=1)
    """Time without a heartbeat after which another runner may take over the window."""
    on_running: OnRunning = OnRunning.SKIP
    definition: str | None = None
    """Digest of everything that determines the steps; attempts with the same one can be resumed."""
    reads: Mapping[str, Reads] = field(default_factory=dict)
    """Ranges that are read, by upstream table."""
    version: int | None = None
    """Version of the table's definition in the registry, or None if it is not registered."""
    other_version: str | None = None
    """Description of the version, if it is not that of the table's file."""
    parameters: Mapping[str, str | int | float | bool] = field(default_factory=dict)
    """Values that the steps can refer to; secrets as `${env:NAME}`."""
    job_run_id: int | None = None
    """ID of the job run that the attempt belongs to."""
    seen_until: datetime | None = None
    """With `lookback`: the data time up to which all input is complete.

    None means that no row can arrive for a later time.
    """
    is_late: bool = False
    """True if downstream tables may have run without this window.

    This follows an earlier `default_start` or a later `end`.
    """
    replaces: tuple[int, ...] = ()
    """Jobs of ended windows of an earlier grid that lie within this window."""
    name: str = ""
    """Name of the window in the log; empty if it is the window's text in the project's time zone.

    See `runlog.attempts.names`.
    """

    def __post_init__(self) -> None:
        object.__setattr__(self, "now", normalize_instant(self.now))
        if self.seen_until is not None:
            object.__setattr__(self, "seen_until", normalize_instant(self.seen_until))


_NOTHING = TakenBatches()


@dataclass(frozen=True, slots=True)
class Attempt:
    """A claimed window: one `job_log` row in status RUNNING, which is the lease on the window."""

    job_id: int
    claim: Claim
    attempt_number: int
    """1 for the first attempt at the window."""
    fencing_token: int
    """Greater than the token of any earlier attempt at the window; guards every later write."""
    previous: Status | None = None
    """Final status of the previous attempt."""
    previous_id: int | None = None
    """Job ID of the previous attempt."""
    replaced: Owner | None = None
    """Owner of the running attempt that this one ended."""
    staged: Mapping[str, str] = field(default_factory=dict)
    """Durable results left by a dead attempt, by step: `step_log.staged`."""
    standing: int | None = None
    """Job whose success of the window remains valid until this attempt publishes a change.

    Set only if this attempt is a rerun of a finished window.
    """
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
        """True if an earlier attempt finished the window, so that this one is a rerun."""
        return self.standing is not None


@dataclass(frozen=True, slots=True)
class Counts:
    """Row counts of one step. `None` means not applicable or unknown; `output` has the reason."""

    source: int | None = None
    target: int | None = None
    success: int | None = None
    failure: int | None = None
    inserted: int | None = None
    """Number of rows in `target` with keys that were new to an upsert's target."""
    updated: int | None = None
    """Number of rows in `target` that replaced others in an upsert's target."""
    malformed: int | None = None
    """Rows that a source could not read, and dropped or filled with NULLs as configured."""
    outside: int | None = None
    """Rows of the sources outside any window, if this step has counted them for the first time."""

    @classmethod
    def sum(cls, counts: Iterable["Counts"]) -> "Counts":
        """Return the sums of the known counts; a count that no step knows remains None."""
        of_steps = list(counts)

        def total(name: str) -> int | None:
            known = [n for each in of_steps if (n := getattr(each, name)) is not None]
            return sum(known) if known else None

        return cls(*(total(field.name) for field in fields(cls)))


@dataclass(frozen=True, slots=True)
class StepOutcome:
    """Outcome of a step, recorded in `step_log`."""

    status: Status
    counts: Counts = Counts()
    source_type: str | None = None
    target_type: str | None = None
    output: str = ""
    error: str | None = None
    target: str | None = None
    """The published table, folder or topic, as readers name it."""
    snapshot_id: str | None = None
    """The snapshot or version of the target that has the rows, if it has one."""


CURRENT_FILE_LENGTH = 1024
"""Maximum length of the file names in `job_log.current_file`."""


@dataclass(frozen=True, slots=True)
class AttemptOutcome:
    """Outcome of an attempt, recorded in `job_log`."""

    status: Status
    application_id: str | None = None
    current_file: str | None = None
    error_count: int = 0
    """Failed tries inside the attempt, kept after a success. Source: Kettle, `error_count`."""
    published_nothing: bool = False
    """True if a failed attempt certainly ended before it began to publish."""
