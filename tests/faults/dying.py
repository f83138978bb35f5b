"""A runner that kills itself (-9) at a named point of a window's life: `dying.py FOLDER POINT`."""

import os
import signal
import sys
from collections.abc import Callable
from typing import Any

from logdriven_dagster.config import load_project
from logdriven_dagster.engine import WindowSession
from logdriven_dagster.execution.chain import Chain
from logdriven_dagster.execution.local import open_runner
from tests.execution.conftest import NOW

POINTS: dict[str, tuple[Any, str, str]] = {
    "claimed": (Chain, "execute", "before"),
    "staged": (WindowSession, "stage", "after"),
    "checked": (WindowSession, "publish", "before"),
    "published": (WindowSession, "publish", "after"),
    "finished": (Chain, "_finish", "after"),
}
VICTIM = 3
"""The third window dies: some are done then, some are not."""


def die_at(point: str) -> None:
    """Arrange for the death."""
    owner, name, moment = POINTS[point]
    original: Callable[..., Any] = getattr(owner, name)
    calls = 0

    def deadly(*args: Any, **kwargs: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls == VICTIM and moment == "before":
            os.kill(os.getpid(), signal.SIGKILL)
        result = original(*args, **kwargs)
        if calls == VICTIM:
            os.kill(os.getpid(), signal.SIGKILL)
        return result

    setattr(owner, name, deadly)


if __name__ == "__main__":
    die_at(sys.argv[2])
    list(open_runner(load_project(sys.argv[1])).catch_up(NOW))
    sys.exit("it did not die")
