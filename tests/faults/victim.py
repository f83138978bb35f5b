"""A runner that is hurt at a named point: `victim.py FOLDER FAULT POINT CALL HOST [TABLE KEY]`.

It catches up as the command line does, or refreshes a window of a table, and prints `hurt` when the
fault happens, `lost JOB` for every attempt that somebody else ended, and `failed JOB` for every one
that failed. What is broken ends it with code 2.
"""

import os
import resource
import signal
import sys
from collections.abc import Callable
from typing import Any

import psutil
from sqlalchemy.orm import Session

from logdriven_dagster.engine import WindowSession
from logdriven_dagster.engine.targets.jdbc import table as jdbc
from logdriven_dagster.errors import LogdrivenError
from logdriven_dagster.execution import owners
from logdriven_dagster.execution.definitions.registering import register
from logdriven_dagster.execution.events import WindowFailed, WindowLost
from logdriven_dagster.execution.opening import open_runner
from logdriven_dagster.execution.window.journal import Journal
from logdriven_dagster.execution.window.leases import HeldLease
from logdriven_dagster.execution.window.pass_execution import PassExecution
from logdriven_dagster.runlog.attempts import claiming
from tests.builders import day
from tests.faults.projects import NOW

POINTS: dict[str, tuple[Any, str, str]] = {
    "claimed": (PassExecution, "execute", "before"),
    "fenced": (WindowSession, "fence", "after"),
    "staged": (WindowSession, "stage", "after"),
    "persisted": (Journal, "persist", "after"),
    "before publishing": (WindowSession, "publish", "before"),
    "between verify and switch": (HeldLease, "verify", "after"),
    "published": (WindowSession, "publish", "after"),
    "finished": (PassExecution, "_finish", "after"),
    "in the heartbeat": (HeldLease, "_renew", "after"),
    "in a transaction of the log": (claiming, "claim", "after"),
    "in a transaction of the catalog": (Session, "commit", "before"),
    "before a commit": (jdbc, "mark", "after"),
}


def kill() -> None:
    """The process is gone, whatever it was doing."""
    os.kill(os.getpid(), signal.SIGKILL)


def kill_jvm() -> None:
    """Spark is gone, Python goes on."""
    for child in psutil.Process().children(recursive=True):
        if child.name() == "java":
            child.kill()


def freeze() -> None:
    """The process stands still until somebody continues it."""
    os.kill(os.getpid(), signal.SIGSTOP)


def fill_disk() -> None:
    """No file of Spark's grows beyond 400 bytes from here on, as on a full disk."""
    for child in psutil.Process().children(recursive=True):
        if child.name() == "java":
            resource.prlimit(child.pid, resource.RLIMIT_FSIZE, (400, 400))


FAULTS: dict[str, Callable[[], None]] = {
    "kill": kill,
    "jvm": kill_jvm,
    "freeze": freeze,
    "full disk": fill_disk,
}


def hurt_at(point: str, call: int, fault: Callable[[], None]) -> None:
    """Let the fault happen at the given call of a point."""
    owner, name, instant = POINTS[point]
    original: Callable[..., Any] = getattr(owner, name)
    calls = 0

    def hurt() -> None:
        sys.stdout.write("hurt\n")
        sys.stdout.flush()
        fault()

    def hurting(*args: Any, **kwargs: Any) -> Any:
        nonlocal calls
        calls += 1
        now = calls == call
        if now and instant == "before":
            hurt()
        result = original(*args, **kwargs)
        if now and instant == "after":
            hurt()
        return result

    setattr(owner, name, hurting)


def main(folder: str, fault: str, point: str, call: str, host: str, *refresh: str) -> None:
    """Catch up until nothing is ready, or refresh a window, or until the fault."""
    if host:
        # As if on another machine: nobody can see that this process is gone.
        owners._host = lambda: host
    if fault:
        hurt_at(point, int(call), FAULTS[fault])
    registered = register(folder)
    runner = open_runner(registered.project, run_log=registered.run_log)
    events = runner.catch_up(NOW)
    if refresh:
        table, key = refresh
        sliced = runner.project.table(table).is_sliced
        (window,) = runner.slices(table, [key]) if sliced else runner.windows(table, day(int(key)))
        events = runner.refresh_windows(table, [window], NOW)
    for event in events:
        if isinstance(event, WindowLost):
            sys.stdout.write(f"lost {event.attempt.job_id}\n")
        if isinstance(event, WindowFailed):
            sys.stdout.write(f"failed {event.attempt.job_id}: {event.error[:200]}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    try:
        main(*sys.argv[1:])
    except LogdrivenError as broken:
        sys.stdout.write(f"{broken}\n")
        sys.exit(2)
