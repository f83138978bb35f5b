"""Exceptions that the package raises on purpose.

::

    LogdrivenError
    ├── UsageError                     an invalid argument: unknown table, malformed range, …
    ├── ConfigError                    one mistake in a project file, with its place and fix
    ├── InvalidProjectError            all ConfigErrors of a project
    ├── UnmetNeedError                 a requirement of tables is missing: nothing was claimed
    ├── RunLogError                    the run log cannot be used (unreachable, newer schema)
    ├── FileKnownError                 this version of a file is registered already
    ├── RefusedError                   a window or job may not run now; nothing was changed
    │   ├── DisabledError                  the table or job is not enabled
    │   ├── JobTypeError                   the job has another type than requested
    │   ├── LifeCycleError                 a call out of turn, or without batches: 101 to 114
    │   │   └── AlreadyRunningError            another runner holds the lease: 104
    │   ├── AlreadyDoneError               the latest attempt succeeded
    │   ├── EarlierWindowError             an ordered table has an older unfinished window
    │   ├── DependencyError                upstream windows are missing; names them
    │   ├── NotDueError                    the window has not ended yet, or is before the start
    │   └── PartOfWindowError              would replace a part of a finished window
    ├── AttemptLostError               the attempt was ended or taken over by another runner
    │   └── LeaseExpiredError              the lease could not be renewed in time
    └── StepError                      a step of an attempt failed
        ├── TransientStepError             a retry may succeed: network, lock, resources
        │   ├── SparkDiedError                 Spark died during the step; the text has the cause
        │   └── EnvironmentStepError           the machine or its network lacks something
        │       ├── DiskFullError                  a disk is full or read-only
        │       └── UnknownHostError               a host name is unknown here
        └── TerminalStepError              a retry will fail: bad SQL, bad data, schema conflict
            ├── TimeoutStepError               the attempt exceeded the table's `timeout`
            ├── BadQualityError                rows violate rules, or too few rows are good
            └── TooMuchDataError               a window writes more rows than it may

Exit codes of the command line follow the tree: `UsageError`, `ConfigError`, `InvalidProjectError`,
`UnmetNeedError` and `RunLogError` are 2, a failed window is 1, a refusal is 1 if one window was
requested.
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
"""BDRE's error codes and messages. Source: BDRE, error codes."""


class LogdrivenError(Exception):
    """Root of the tree; its text is safe to show (no secrets) and includes a fix."""


class UsageError(LogdrivenError):
    """An argument of a command or call is invalid."""


class ConfigError(LogdrivenError):
    """A mistake in a project file: `path:line: field: problem; hint`.

    `item` is the item of a template's `for_each` with the mistake; it is part of the problem's
    text.
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


class UnparsedQueryError(ConfigError):
    """A query that sqlglot cannot parse, although Spark may."""


class InvalidProjectError(LogdrivenError):
    """All mistakes of a project, so that one run reports them all."""

    def __init__(self, errors: Sequence[ConfigError]) -> None:
        self.errors = tuple(errors)
        super().__init__("\n".join(str(error) for error in self.errors))


class RunLogError(LogdrivenError):
    """The run log cannot be reached, or this version does not support its schema."""


class UnmetNeedError(LogdrivenError):
    """A requirement of windows is missing or broken, for all tables that share it.

    It is a connection, an environment variable, a Python file or Spark itself. No window was
    claimed. `engine` names an engine that did not start: tables that run on another engine do not
    need it.
    """

    def __init__(self, need: str, problem: str, engine: str | None = None) -> None:
        self.need, self.problem, self.engine = need, problem, engine
        super().__init__(f"{need}: {problem}")


class FileKnownError(LogdrivenError):
    """This version of a file is registered already, in the batch that the text names."""


class RefusedError(LogdrivenError):
    """The window or job may not run now. Nothing was changed; the text includes a fix."""


class DisabledError(RefusedError):
    """The table or job is not enabled. Source: Kettle, `is_enabled`; DolphinScheduler, flag."""


class JobTypeError(RefusedError):
    """The job has another type than requested. Source: Kettle, `kjb_type`."""


class AlreadyDoneError(RefusedError):
    """The latest attempt at the window succeeded; use a refresh to run it again."""


class LifeCycleError(RefusedError):
    """A life cycle call out of turn, or without the necessary batches; `code` is BDRE's number."""

    def __init__(self, code: int, detail: str) -> None:
        self.code = code
        super().__init__(f"{LIFE_CYCLE_MESSAGES[code]} ({code}): {detail}")


class AlreadyRunningError(LifeCycleError):
    """Another attempt at the window, or at one that excludes it, is running."""

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
    """The window overlaps a finished one of an earlier grid, whose rows are replaced as a whole."""


class AttemptLostError(LogdrivenError):
    """A write guarded by an attempt's fencing token hit no row: another runner took over."""


class LeaseExpiredError(AttemptLostError):
    """The run log could not be reached in time: another runner may hold the window by now."""


class StepError(LogdrivenError):
    """A step failed; the text is the content of `step_log.error`.

    Its first line describes the error in one sentence; the original message of Spark, a database or
    Python follows after an empty line.
    """


def in_brief(error: str) -> str:
    """Return the part of a step's error before the first empty line, for display.

    `logdriven log --full` shows the rest.
    """
    return error.strip().partition("\n\n")[0]


class TransientStepError(StepError):
    """A step failed that may succeed on retry."""


class SparkDiedError(TransientStepError):
    """Spark died during a step; another Spark may run the step."""


class EnvironmentStepError(TransientStepError):
    """A step failed for want of something that the machine or its network must provide.

    If retries do not help, it becomes an UnmetNeedError: the window has not failed.
    """

    need = "environment"
    """The name of the unmet need."""
    fix = "repair it"
    """The action that helps."""


class DiskFullError(EnvironmentStepError):
    """A disk has no space left, or is read-only."""

    need = "disk"
    fix = (
        "free space on the disk of the warehouse and of Spark's temporary files, or move "
        "`warehouse` or `spark.local.dir`"
    )


class UnknownHostError(EnvironmentStepError):
    """The name of a host could not be resolved."""

    need = "network"
    fix = "check the host name, and that DNS or /etc/hosts of this machine knows it"


class TerminalStepError(StepError):
    """A retry cannot succeed: the definition or the data must be repaired."""


class TimeoutStepError(TerminalStepError):
    """The attempt took longer than the table's `timeout`."""


class NotPublishedError(TerminalStepError):
    """A target cannot be read, since no window of it was ever published."""


class BadQualityError(TerminalStepError):
    """A blocking rule is violated, or fewer rows are good than `min_pass`. Source: BDRE."""


class TooMuchDataError(TerminalStepError):
    """A window would write more rows than `max_rows`.

    Source: Sharp ETL, IncrementalDiffModeTooMuchData.
    """


def get_driver_message(error: BaseException | None) -> str:
    """Return the first line of a driver's exception, or an empty string for None.

    Drivers for MariaDB put a number before the message, psycopg puts advice after it.
    """
    if error is None:
        return ""
    numbered = len(error.args) == 2 and isinstance(error.args[0], int)
    return str(error.args[1] if numbered else error).strip().partition("\n")[0]
