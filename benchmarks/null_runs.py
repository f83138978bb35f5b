"""Runners whose windows cost nothing beside their log; some fail when they are tried first."""

import zlib

from logdriven_dagster.config import Project
from logdriven_dagster.config.models.steps import StepConfig
from logdriven_dagster.errors import TerminalStepError
from logdriven_dagster.execution.runner import Runner
from logdriven_dagster.model.runs import WindowRun
from logdriven_dagster.runlog import RunLog
from logdriven_dagster.testing.null_engine import NullEngine, null_runner

_FAILING = 100
"""One window in so many fails when it is tried first."""


class _FirstTries:
    """Raises for one window in `failing` when it is tried first."""

    def __init__(self, failing: int) -> None:
        self._failing = failing
        self._failed: set[tuple[str, str]] = set()

    def __call__(self, run: WindowRun, _step: StepConfig) -> int:
        key = (run.table, run.window.key)
        first = self._failing and zlib.crc32(" ".join(key).encode()) % self._failing == 0
        if first and key not in self._failed:
            self._failed.add(key)
            raise TerminalStepError("the first try of this window fails")
        return 1


def failing_engine(failing: int = _FAILING) -> NullEngine:
    """Return an engine on which one window in `failing` fails at first; with 0, none does."""
    return NullEngine(stage=_FirstTries(failing))


def cheap_runner(
    project: Project, run_log: RunLog, *, failing: int = _FAILING, dagster_run_id: str | None = None
) -> Runner:
    """Return a runner on such an engine."""
    engine = failing_engine(failing)
    return null_runner(project, run_log, engine, dagster_run_id=dagster_run_id)
