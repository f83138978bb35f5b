"""Null engine: windows are claimed, fenced, published and logged without Spark or any rows."""

import json
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from datetime import datetime
from typing import Any
from zoneinfo import ZoneInfo

from logdriven_dagster.config.models.fields import read_instant
from logdriven_dagster.config.models.steps import CheckConfig, StepConfig
from logdriven_dagster.config.project import Project
from logdriven_dagster.engine.spark.actions import run_checks
from logdriven_dagster.errors import StepError, TerminalStepError
from logdriven_dagster.execution.definitions.homes import enter
from logdriven_dagster.execution.opening import substitute_engine
from logdriven_dagster.execution.owners import current_owner
from logdriven_dagster.execution.runner import Runner
from logdriven_dagster.execution.window.sessions import Engine, WindowSession
from logdriven_dagster.model.attempts import Counts
from logdriven_dagster.model.files import RegisteredFile
from logdriven_dagster.model.runs import Published, Staged, WindowRun
from logdriven_dagster.model.windows import TimeWindow
from logdriven_dagster.runlog import RunLog

_POLL_SECONDS = 0.02


@dataclass(frozen=True, slots=True)
class Publication:
    """One step of one window, published by one attempt."""

    table: str
    window: TimeWindow
    step: str
    job_id: int
    """ID of the attempt, `job_log.job_id`."""

    def __str__(self) -> str:
        return f"{self.table} {self.window}"


@dataclass
class _Failure:
    """A failure requested by a test."""

    table: str
    start: datetime | str | None
    step: str | None
    error: StepError
    times: int

    def concerns(self, run: WindowRun, step: StepConfig, zone: ZoneInfo) -> bool:
        if not self.times or self.table != run.table or self.step not in (None, step.step):
            return False
        if self.start is None:
            return True
        return read_instant(self.start, zone) == run.window.start


@dataclass(frozen=True, slots=True)
class _StagedRows:
    """Staged rows of a step, of which only the number is real."""

    location: str
    rows: int

    def describe(self, step: StepConfig) -> Staged:
        if step.target is None:
            return Staged(step.step, Counts(), "sql", None, ())
        counts = Counts(source=self.rows, target=self.rows, success=self.rows, failure=0)
        state, kind = json.dumps(asdict(self)), step.target.type
        return Staged(step.step, counts, "sql", kind, (), location=self.location, state=state)


class _NullWarehouse:
    """Targets of the null engine: staged and published steps, and the attempts that wrote them."""

    def __init__(self) -> None:
        self.published: dict[Publication, _StagedRows] = {}
        self.staged: set[_StagedRows] = set()
        self._tokens: dict[tuple[str, str], int] = {}
        """Greatest fencing token that a target has received, by table and window."""

    def publish(self, run: WindowRun, step_id: str, rows: _StagedRows) -> None:
        """Publish a step. Raises AttemptLostError if a newer attempt has fenced the window."""
        self.fence(run.for_step(step_id))
        self.published[Publication(run.table, run.window, step_id, run.job_id)] = rows

    def fence(self, run: WindowRun) -> None:
        """Reject older attempts. Raises AttemptLostError if this attempt is the older one."""
        place = (run.table, run.window.key)
        if (token := self._tokens.get(place, 0)) > run.fencing_token:
            raise run.build_superseded_error(token)
        self._tokens[place] = run.fencing_token


class NullEngine(Engine):
    """An engine without Spark, which records the published windows in order.

    Planning, claims, leases, fencing, steps, retries and the log are those of a real run. A step
    delivers one row. A target rejects an attempt that a newer one has fenced, as real targets do.
    Operations that need rows raise UsageError: reading a table, the end of a source, an audit.

    One engine serves any number of runners and projects of a process, as a warehouse does.
    """

    name, application_id = "the null engine", "null"

    def __init__(
        self,
        *,
        stage: Callable[[WindowRun, StepConfig], int] | None = None,
        check: Callable[[WindowRun, CheckConfig], None] | None = None,
    ) -> None:
        """Make an engine whose steps deliver one row and whose checks pass.

        Args:
            stage: called with an attempt and one of its steps. Returns the number of rows of the
                step; an exception that it raises fails the step.
            check: called with an attempt and a check; an exception that it raises fails the check.
        """
        self._stage, self._check = stage, check
        self._failures: list[_Failure] = []
        self._warehouse = _NullWarehouse()

    @property
    def publications(self) -> tuple[Publication, ...]:
        """The published windows, in order. A rerun window is included twice."""
        return tuple(self._warehouse.published)

    def published(self, table: str | None = None) -> list[str]:
        """Return the publications of one table or of all as text: `ods.orders [2022-01-01, …)`."""
        return [str(each) for each in self.publications if table in (None, each.table)]

    def clear(self) -> None:
        """Discard everything staged and published, as if the warehouse were empty."""
        self._warehouse = _NullWarehouse()

    def fail(
        self,
        table: str,
        start: datetime | str | None = None,
        *,
        step: str | None = None,
        error: StepError | None = None,
        times: int = 1,
    ) -> None:
        """Let the next attempts to stage a table's step fail.

        Args:
            table: the table's name.
            start: the start of the window that fails; by default any window.
            step: the step that fails; by default any step.
            error: the error to raise; by default a TerminalStepError, which is not retried.
            times: the number of attempts, apart from batches, that fail before the step succeeds.
        """
        why = error or TerminalStepError("the test asked for this failure")
        self._failures.append(_Failure(table, start, step, why, times))

    @staticmethod
    def wait(seconds: float, until: Callable[[], bool] = lambda: False) -> None:
        """Block for some time within `stage`; interrupted for the same reasons as a Spark job.

        Args:
            seconds: the maximum duration.
            until: the step ends as soon as this returns True.

        Raises:
            Exception: the reason that stops the attempt: its timeout, a lost lease, the end of its
                caller.
        """
        end = time.monotonic() + seconds
        while time.monotonic() < end and not until():
            run_checks()
            time.sleep(_POLL_SECONDS)

    def stage(self, run: WindowRun, step: StepConfig, zone: ZoneInfo, *, alone: bool) -> int:
        """Return the number of rows of a step, or raise its failure.

        `alone` is False in a batch: its windows run again in smaller ones, and fail there.
        """
        for failure in self._failures:
            if failure.concerns(run, step, zone):
                failure.times -= alone
                raise failure.error
        return 1 if self._stage is None else self._stage(run, step)

    def check(self, run: WindowRun, check: CheckConfig) -> None:
        """Raise the failure of a check, if any."""
        if self._check is not None:
            self._check(run, check)

    @contextmanager
    def open_session(self, runs: Sequence[WindowRun], project: Project) -> Iterator["NullSession"]:
        """Open a session for one window, or for a batch of adjoining windows."""
        yield NullSession(self, self._warehouse, runs, project.zone)


@dataclass
class NullSession(WindowSession):
    """The steps of one window, or of several adjoining ones, on the null engine."""

    engine: NullEngine
    warehouse: _NullWarehouse
    runs: Sequence[WindowRun]
    zone: ZoneInfo
    """Time zone of the project."""
    _staged: dict[str, list[_StagedRows]] = field(default_factory=dict)
    """Staged rows of each step, one item per window."""
    _published: set[str] = field(default_factory=set)

    def stage(self, step: StepConfig) -> tuple[Staged, ...]:
        """Stage a step of every window."""
        alone = len(self.runs) == 1
        rows = [self.engine.stage(run, step, self.zone, alone=alone) for run in self.runs]
        places = [f"null/{run.job_id}/{step.step}" for run in self.runs]
        return self._keep(step, list(map(_StagedRows, places, rows)))

    def stage_frame(self, step: StepConfig, _frame: Any) -> tuple[Staged, ...]:
        """Stage a given data frame, which is not evaluated."""
        return self.stage(step)

    def check(self, check: CheckConfig) -> None:
        """Run a check on every window."""
        for run in self.runs:
            self.engine.check(run, check)

    def count_replaced_rows(self, _step: StepConfig) -> int:
        """Return 0, since no rows are replaced."""
        return 0

    def publish(self, step_id: str, verify: Callable[[], None]) -> tuple[Published, ...]:
        """Record a staged step as published. Raises AttemptLostError if a window is fenced."""
        verify()
        for run, rows in zip(self.runs, self._staged[step_id], strict=True):
            self.warehouse.publish(run, step_id, rows)
        self._published.add(step_id)
        target = f"null {self.runs[0].table}"
        return tuple(Published(step_id, target, rows=each.rows) for each in self._staged[step_id])

    def fence(self, runs: Sequence[WindowRun] | None = None) -> None:
        """Reject publications of every older attempt at these windows."""
        for run in self.runs if runs is None else runs:
            self.warehouse.fence(run)

    def restore(self, step: StepConfig, states: Sequence[str]) -> tuple[Staged, ...] | None:
        """Take over results staged by dead attempts; returns None if they no longer exist."""
        known = [_StagedRows(**json.loads(state)) for state in states]
        return self._keep(step, known) if self.warehouse.staged.issuperset(known) else None

    def read_files(self, files: tuple[RegisteredFile, ...]) -> None:
        """Accept the files of a table of files."""

    def refuse_changed_files(self) -> None:
        """Accept every file unchecked."""

    def discard(self) -> None:
        """Discard staged results that are not published."""
        for step_id, staged in self._staged.items():
            if step_id not in self._published:
                self.warehouse.staged.difference_update(staged)

    def _keep(self, step: StepConfig, staged: list[_StagedRows]) -> tuple[Staged, ...]:
        self._staged[step.step] = staged
        self.warehouse.staged.update(staged)
        return tuple(each.describe(step) for each in staged)


@contextmanager
def null_engine(engine: NullEngine | None = None) -> Iterator[NullEngine]:
    """Use the null engine in every runner of this process within the block.

    This includes the runners opened by Dagster's jobs and sensors and by the command line.
    """
    chosen = engine or NullEngine()
    with substitute_engine(chosen):
        yield chosen


def null_runner(
    project: Project, run_log: RunLog, engine: NullEngine, *, dagster_run_id: str | None = None
) -> Runner:
    """Return a runner of a project that runs its windows on the null engine.

    `dagster_run_id` is recorded as part of the owner of its attempts.
    """
    enter(project, run_log)
    return Runner(project, run_log, lambda _: engine, current_owner(dagster_run_id))
