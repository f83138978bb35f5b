"""Every exception the package raises on purpose.

::

    LogdrivenError
    ├── UsageError                     a bad argument: unknown table, malformed range, …
    ├── ConfigError                    one mistake in a project file, with its place and fix
    ├── InvalidProjectError            every ConfigError of a project, at once
    ├── RunLogError                    the run log cannot be used (unreachable, newer schema)
    ├── RefusedError                   a window may not run now; nothing was changed
    │   ├── AlreadyDoneError               its latest attempt succeeded
    │   ├── AlreadyRunningError            another runner holds it
    │   ├── EarlierWindowError             an ordered table has an older unfinished window
    │   ├── DependencyError                upstream windows are missing; names them
    │   └── NotDueError                    the window has not ended yet, or is before the start
    ├── AttemptLostError               the attempt is not ours any more: ended or taken over
    │   └── LeaseExpiredError              its lease could not be renewed in time
    └── StepError                      a step of an attempt failed
        ├── TransientStepError             worth another try: network, lock, resources
        └── TerminalStepError              will fail again: bad SQL, bad data, schema conflict
            └── TimeoutStepError               the attempt took longer than the table's `timeout`

Exit codes of the command line follow the tree: `UsageError`, `ConfigError`, `InvalidProjectError`
and `RunLogError` are 2, a failed window is 1, a refusal is 1 where one window was asked for.
"""

from collections.abc import Sequence
from pathlib import Path


class LogdrivenError(Exception):
    """Root of the tree; its text is safe to show (no secrets) and says what to do."""


class UsageError(LogdrivenError):
    """An argument of a command or call cannot be used."""


class ConfigError(LogdrivenError):
    """One mistake in a project file: `path:line: field: problem; hint`."""

    def __init__(
        self, path: Path, line: int | None, field: str, problem: str, hint: str | None = None
    ) -> None:
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


class RefusedError(LogdrivenError):
    """The window may not run now. Nothing was changed; the text says how to go on."""


class AlreadyDoneError(RefusedError):
    """The latest attempt at the window succeeded; use a refresh to run it again."""


class AlreadyRunningError(RefusedError):
    """Another attempt at the window is running."""


class EarlierWindowError(RefusedError):
    """The table is ordered and an older window has not succeeded."""


class DependencyError(RefusedError):
    """Upstream windows that this window needs have not succeeded."""


class NotDueError(RefusedError):
    """The window lies (partly) in the future, inside the delay, or before `default_start`."""


class AttemptLostError(LogdrivenError):
    """A write guarded by an attempt's fencing token hit no row: somebody else ended the attempt."""


class LeaseExpiredError(AttemptLostError):
    """The run log could not be reached in time: by now somebody else may have the window."""


class StepError(LogdrivenError):
    """A step failed; the text is what `step_log.error` holds."""


class TransientStepError(StepError):
    """The same step may succeed when tried again."""


class TerminalStepError(StepError):
    """Trying again changes nothing: the definition or the data must be repaired."""


class TimeoutStepError(TerminalStepError):
    """The attempt took longer than the table allows (`timeout`)."""
