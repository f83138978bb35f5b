"""An engine that reads, stages and publishes nothing: what is left is what the log costs."""

import json
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import cast

from logdriven_dagster.config import Project
from logdriven_dagster.config.models.steps import StepConfig
from logdriven_dagster.engine import Engine
from logdriven_dagster.errors import TerminalStepError
from logdriven_dagster.execution.owners import current_owner
from logdriven_dagster.execution.runner import Runner
from logdriven_dagster.model.attempts import Counts
from logdriven_dagster.model.runs import Published, Staged, WindowRun
from logdriven_dagster.runlog import RunLog

_FAILING = 100
"""One window in so many fails when it is tried first."""
_STATE = json.dumps({"rows": {}, "source_type": "sql", "current_files": []})


class NullEngine:
    """The engine's face, behind which nothing is read or written."""

    application_id = "null"

    def __init__(self, failing: int = _FAILING) -> None:
        self._failing = failing
        self._failed: set[tuple[str, str]] = set()

    @contextmanager
    def window(
        self, runs: Sequence[WindowRun], _project: Project | None = None
    ) -> Iterator["_NullSession"]:
        """Open a session for windows that run in one pass."""
        yield _NullSession(runs, self._fails)

    def _fails(self, run: WindowRun) -> bool:
        key = (run.table, run.window.key)
        if not self._failing or key in self._failed:
            return False
        if zlib.crc32(" ".join(key).encode()) % self._failing:
            return False
        self._failed.add(key)
        return True


@dataclass
class _NullSession:
    runs: Sequence[WindowRun]
    fails: Callable[[WindowRun], bool]

    def stage(self, step: StepConfig) -> tuple[Staged, ...]:
        if any(map(self.fails, self.runs)):
            raise TerminalStepError("it fails when it is tried first")
        counts = Counts(source=1, target=1, success=1, failure=0)
        return (Staged(step.step, counts, "sql", "parquet", (), state=_STATE),) * len(self.runs)

    def publish(self, step_id: str, verify: Callable[[], None]) -> tuple[Published, ...]:
        verify()
        return (Published(step_id, "nowhere", rows=1),) * len(self.runs)

    def fence(self, runs: Sequence[WindowRun]) -> None:
        pass

    def refuse_changed_files(self) -> None:
        pass

    def replaced_rows(self, _step: StepConfig) -> int:
        return 0

    def discard(self) -> None:
        pass


def null_runner(
    project: Project, run_log: RunLog, *, failing: int = _FAILING, dagster_run_id: str | None = None
) -> Runner:
    """A runner of a project whose windows cost nothing beside their log.

    One window in `failing` fails when it is tried first; with 0, none does.
    """
    engine = cast("Engine", NullEngine(failing))
    return Runner(project, run_log, lambda _: engine, current_owner(dagster_run_id))
