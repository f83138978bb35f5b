"""Every exception the package raises on purpose.

::

    LogdrivenError
    ├── UsageError                     a bad argument: unknown table, malformed range, …
    ├── ConfigError                    one mistake in a project file, with its place and fix
    ├── InvalidProjectError            every ConfigError of a project, at once
    ├── UnmetNeedError                 what tables need is missing here: nothing was claimed
    ├── RunLogError                    the run log cannot be used (unreachable, newer schema)
    ├── FileKnownError                 this version of a file is registered already
    ├── RefusedError                   a window or job may not run now; nothing was changed
    │   ├── DisabledError                  the table or job is not enabled
    │   ├── JobTypeError                   the job is of another type than was asked for
    │   ├── LifeCycleError                 a call out of turn, or for want of batches: 101 to 114
    │   │   └── AlreadyRunningError            another runner holds it: 104
    │   ├── AlreadyDoneError               its latest attempt succeeded
    │   ├── EarlierWindowError             an ordered table has an older unfinished window
    │   ├── DependencyError                upstream windows are missing; names them
    │   ├── NotDueError                    the window has not ended yet, or is before the start
    │   └── PartOfWindowError              it would replace a part of a finished window
    ├── AttemptLostError               the attempt is not ours any more: ended or taken over
    │   └── LeaseExpiredError              its lease could not be renewed in time
    └── StepError                      a step of an attempt failed
        ├── TransientStepError             worth another try: network, lock, resources
        │   └── SparkDiedError                 Spark is gone in the middle of it; the text says why
        └── TerminalStepError              will fail again: bad SQL, bad data, schema conflict
            ├── TimeoutStepError               the attempt took longer than the table's `timeout`
            ├── BadQualityError                rows break rules, or too many are not good
            └── TooMuchDataError               a window writes more rows than it may

Exit codes of the command line follow the tree: `UsageError`, `ConfigError`, `InvalidProjectError`,
`UnmetNeedError` and `RunLogError` are 2, a failed window is 1, a refusal is 1 where one window was
asked for.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path

LIFE_CYCLE_MESSAGES: Mapping[int, str] = {
    101: "Max batch cannot be null",
    102: "Invalid parent process",
    103: "Invalid sub-process",
    104: "Parent Process is already running",
    105: "The process is not running",
    106: "This sub process is already running",
    107: "This sub process is not running",
    108: "The parent process is not running",
    109: "Not all necessary batches are present for the sub process",
    110: "Sub process in running state",
    111: "Sub process in failed state",
    112: "No batches present for one of the sub processes",
    113: "Min batch and max batch do not belong to the same sub process",
    114: "Batch not present in the process_batch_queue table",
}
"""Source: BDRE, error codes."""


class LogdrivenError(Exception):
    """Root of the tree; its text is safe to show (no secrets) and says what to do."""


class UsageError(LogdrivenError):
    """An argument of a command or call cannot be used."""


class ConfigError(LogdrivenError):
    """One mistake in a project file: `path:line: field: problem; hint`.

    `item` is which item of a template's `for_each` it is about: part of the problem's text.
    """

    def __init__(
        self,
        path: Path,
        line: int | None,
        field: str,
        problem: str,
        hint: str | None = None,
        *,
        item: str | None = None,
    ) -> None:
        self.bare_problem, self.item = problem, item
        problem = f"{problem} ({item})" if item else problem
        self.path, self.line, self.field, self.problem, self.hint = path, line, field, problem, hint
        place = f"{path}:{line}" if line else str(path)
        where = f"{place}: {field}" if field else place
        super().__init__(f"{where}: {problem}" + (f"; {hint}" if hint else ""))


class InvalidProjectError(LogdrivenError):
    """All the mistakes of a project together, so that one run shows them all."""

    def __init__(self, errors: Sequence[ConfigError]) -> None:
        self.errors = tuple(errors)
        super().__init__("\n".join(str(error) for error in self.errors))


class RunLogError(LogdrivenError):
    """The run log cannot be reached or its schema is not one that this version knows."""


class UnmetNeedError(LogdrivenError):
    """Something that windows need is missing or broken, for all tables that need it alike.

    A connection, a variable of the environment, a Python file, Spark itself. Nothing was claimed.
    `engine` names the one that did not start: tables that run on another do not need it.
    """

    def __init__(self, need: str, problem: str, engine: str | None = None) -> None:
        self.need, self.problem, self.engine = need, problem, engine
        super().__init__(f"{need}: {problem}")


class FileKnownError(LogdrivenError):
    """This version of a file is registered already, in the batch that the text names."""


class RefusedError(LogdrivenError):
    """The window may not run now. Nothing was changed; the text says how to go on."""


class DisabledError(RefusedError):
    """The table or job is not enabled. Source: Kettle, `is_enabled`; DolphinScheduler, flag."""


class JobTypeError(RefusedError):
    """The job is of another type than was asked for. Source: Kettle, `kjb_type`."""


class AlreadyDoneError(RefusedError):
    """The latest attempt at the window succeeded; use a refresh to run it again."""


class LifeCycleError(RefusedError):
    """A call of the life cycle out of turn, or for want of batches; `code` as BDRE numbers them."""

    def __init__(self, code: int, detail: str) -> None:
        self.code = code
        super().__init__(f"{LIFE_CYCLE_MESSAGES[code]} ({code}): {detail}")


class AlreadyRunningError(LifeCycleError):
    """Another attempt at the window, or at one that it must not run beside, is running."""

    def __init__(self, text: str) -> None:
        self.code = 104
        RefusedError.__init__(self, text)


class EarlierWindowError(RefusedError):
    """The table is ordered and an older window has not succeeded."""


class DependencyError(RefusedError):
    """Upstream windows that this window needs have not succeeded."""


class NotDueError(RefusedError):
    """The window lies (partly) in the future, inside the delay, or before `default_start`."""


class PartOfWindowError(RefusedError):
    """The window overlaps a finished window of an earlier grid, whose rows go as a whole."""


class AttemptLostError(LogdrivenError):
    """A write guarded by an attempt's fencing token hit no row: somebody else ended the attempt."""


class LeaseExpiredError(AttemptLostError):
    """The run log could not be reached in time: by now somebody else may have the window."""


class StepError(LogdrivenError):
    """A step failed; the text is what `step_log.error` holds.

    Its first line says it in one sentence; after an empty line follows what Spark, a database or
    Python said itself.
    """


def in_brief(error: str) -> str:
    """The part of a step's error that is shown to people: all before the first empty line.

    `logdriven log --full` shows the rest.
    """
    return error.strip().partition("\n\n")[0]


class TransientStepError(StepError):
    """A step failed that may succeed when it is tried again."""


class SparkDiedError(TransientStepError):
    """Spark is gone in the middle of a step; another one may do the step."""


class TerminalStepError(StepError):
    """Trying again changes nothing: the definition or the data must be repaired."""


class TimeoutStepError(TerminalStepError):
    """The attempt took longer than the table allows (`timeout`)."""


class NotPublishedError(TerminalStepError):
    """A target cannot be read, since no window of it was ever published."""


class BadQualityError(TerminalStepError):
    """A blocking rule is broken, or fewer rows are good than `min_pass` asks for. Source: BDRE."""


class TooMuchDataError(TerminalStepError):
    """A window would write more rows than `max_rows`.

    Source: Sharp ETL, IncrementalDiffModeTooMuchData.
    """
