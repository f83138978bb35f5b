"""The interface of engines: the questions and orders of the execution of windows.

Spark (`engine.window.engine`) and the null engine (`testing.null_engine`) implement it, and so do
engines of packages (docs/engines.md).
"""

from abc import abstractmethod
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from datetime import datetime
from typing import Any, NoReturn, Protocol, TypeAlias

from logdriven_dagster.config.models.steps import CheckConfig, StepConfig
from logdriven_dagster.config.project import Project
from logdriven_dagster.engine.comparison.values import Comparison, Rule, Side
from logdriven_dagster.errors import TerminalStepError, UsageError
from logdriven_dagster.model.files import RegisteredFile
from logdriven_dagster.model.runs import Published, Staged, WindowRun
from logdriven_dagster.model.source_rows import SourceRows
from logdriven_dagster.model.windows import TimeWindow


class WindowSession(Protocol):
    """The steps of one window, or of several adjoining ones that run together.

    Results are sequences with one item per window, the oldest first. Every failure is a StepError:
    a TransientStepError may be retried. Staged rows are invisible to readers until they are
    published. An exception that interrupts a call stops the work and propagates.

    Subclasses implement the abstract methods. The others raise TerminalStepError by default.
    """

    @abstractmethod
    def stage(self, step: StepConfig) -> tuple[Staged, ...]:
        """Read, transform and write one step of every window to staging.

        `Staged.state` and `Staged.location` are logged: `restore` of a later attempt receives the
        state if this process dies.
        """
        ...

    def stage_frame(self, step: StepConfig, frame: Any) -> tuple[Staged, ...]:
        """Write a data frame that was made outside of the session to staging."""
        _refuse_part("data frames", step, frame)

    def check(self, check: CheckConfig) -> None:
        """Raise TerminalStepError if the query of a check returns rows of the staged steps."""
        _refuse_part("checks", check)

    def count_replaced_rows(self, step: StepConfig) -> int:
        """Return the number of published rows that the staged rows of a step would replace."""
        _refuse_part("counts of replaced rows", step)

    @abstractmethod
    def publish(self, step_id: str, verify: Callable[[], None]) -> tuple[Published, ...]:
        """Make the rows of a staged step visible, atomically for each window.

        Publishing again leaves the same rows. Call `verify` as late as possible before the change
        becomes visible: it raises AttemptLostError if the attempt was taken over. Raises
        AttemptLostError (`WindowRun.superseded`) if the target was fenced with a newer token.
        """
        ...

    @abstractmethod
    def fence(self, runs: Sequence[WindowRun] | None = None) -> None:
        """Make targets reject every attempt at these windows with an older fencing token.

        `runs` are by default those of the session.
        """
        ...

    @abstractmethod
    def restore(self, step: StepConfig, states: Sequence[str]) -> tuple[Staged, ...] | None:
        """Take over rows that dead attempts staged, as if they had been staged here.

        `states` are the logged `Staged.state`. Returns None if any rows are missing.
        """
        ...

    def read_files(self, files: tuple[RegisteredFile, ...]) -> None:
        """Use these files for the steps of a table of files from now on."""
        _refuse_part("tables of files", files)

    def refuse_changed_files(self) -> None:
        """Raise TransientStepError if a file to be read has changed since it was registered."""

    @abstractmethod
    def discard(self) -> None:
        """Remove staged rows that are not published."""
        ...


class Engine(Protocol):
    """An engine that runs windows of one project, in any number of threads.

    Subclasses implement the abstract methods. The others serve
    previews, audits and sources without windows of time; by default they raise UsageError.
    """

    @property
    @abstractmethod
    def name(self) -> str:
        """The name of the engine in messages."""
        ...

    @property
    @abstractmethod
    def application_id(self) -> str:
        """ID of the running engine, for `job_log.application_id`."""
        ...

    @abstractmethod
    def open_session(
        self, runs: Sequence[WindowRun], project: Project
    ) -> AbstractContextManager[WindowSession]:
        """Open a session for one window, or for adjoining ones, the oldest first.

        `project` has the definition of the table, which may be an earlier version. Staged rows
        remain at the end: `WindowSession.discard` is called once the log has the outcome.
        """
        ...

    def read(self, table: str, window: TimeWindow | None = None) -> Any:
        """Return the published rows of a table as a data frame: all, or those of a window."""
        _refuse(self, f"rows of {table} cannot be read", window)

    def look(self, table: str, window: TimeWindow | None, sql: str | None, limit: int) -> Any:
        """Return the first published rows of a table, or of the query `sql`, as an Arrow table."""
        _refuse(self, f"rows of {table} cannot be read", window, sql, limit)

    def compare(self, left: Side, right: Side, rule: Rule) -> Comparison:
        """Compare the rows of two sides."""
        _refuse(self, "rows cannot be compared", left, right, rule)

    def reading(self, run: WindowRun) -> Any:
        """Return the context in which a source of ours determines the end of a key range."""
        _refuse(self, f"{run.table} has a source of which the end cannot be determined")

    def count_source(
        self, run: WindowRun, step: StepConfig, now: datetime, done: Sequence[TimeWindow] | range
    ) -> SourceRows:
        """Count all rows of a step's source; `done` are the ranges or keys that were read."""
        _refuse(self, f"the source of {run.table} cannot be counted", step, now, done)

    def count_files(self, run: WindowRun, step: StepConfig) -> int:
        """Count the rows of a step's source in the files of a run."""
        _refuse(self, f"the files of {run.table} cannot be counted", step)


def _refuse_part(part: str, *_: object) -> NoReturn:
    raise TerminalStepError(f"{part} are not supported on the engine of this table")


def _refuse(engine: Engine, problem: str, *_: object) -> NoReturn:
    raise UsageError(f"{problem} on {engine.name}; run this on Spark (spark.engine: spark)")


Engines: TypeAlias = Callable[[str], Engine]
"""A function that starts the engine of a name at its first call."""
