"""Runners that crash where a test says: inside the process, or killed."""

from collections.abc import Callable

import pytest

from logdriven_dagster.engine import WindowSession
from logdriven_dagster.execution.window.chain import Chain

EXPIRE = (
    "UPDATE job_log SET lease_expires_at = '2000-01-01 00:00:00.000000' WHERE status = 'RUNNING'"
)


class KilledError(BaseException):
    """The process ends here and logs nothing."""


@pytest.fixture
def after_stage(monkeypatch) -> Callable[[str, Callable[[], None]], list[str]]:
    """Do something once, right after a step was staged; returns the steps staged so far."""

    def arrange(step_id: str, hook: Callable[[], None]) -> list[str]:
        original, staged, waiting = WindowSession.stage, [], [hook]

        def stage(self, step):
            result = original(self, step)
            staged.append(step.step)
            if step.step == step_id and waiting:
                waiting.pop()()
            return result

        monkeypatch.setattr(WindowSession, "stage", stage)
        return staged

    return arrange


def kill():
    raise KilledError


def crash(world, monkeypatch, table):
    """Run into a KilledError that nobody logs, and let the lease run out."""
    with monkeypatch.context() as dying:
        dying.setattr(Chain, "interrupted", lambda _chain, _cause: None)
        with pytest.raises(KilledError):
            world.catch_up(tables=[table], max_windows=1)
    world.sql(EXPIRE)
