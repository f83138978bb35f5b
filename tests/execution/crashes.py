"""Runners that crash where a test says: inside the process, or killed."""

import pytest

from logdriven_dagster.execution.window.pass_execution import PassExecution

EXPIRE = (
    "UPDATE job_log SET lease_expires_at = '2000-01-01 00:00:00.000000' WHERE status = 'RUNNING'"
)


class KilledError(BaseException):
    """The process ends here and logs nothing."""


def kill():
    raise KilledError


def crash(world, monkeypatch, table):
    """Run into a KilledError that nobody logs, and let the lease run out."""
    with monkeypatch.context() as dying:
        dying.setattr(PassExecution, "record_interruption", lambda _execution, _cause: None)
        with pytest.raises(KilledError):
            world.catch_up(tables=[table], max_windows=1)
    world.sql(EXPIRE)
