"""Pauses that end early if a check raises."""

import time
from collections.abc import Callable

_LOOKS_SECONDS = 0.2


def pause(seconds: float, check: Callable[[], None]) -> None:
    """Wait before a retry; `check`, which is called repeatedly, raises if waiting is useless."""
    end = time.monotonic() + seconds
    while (left := end - time.monotonic()) > 0:
        check()
        time.sleep(min(left, _LOOKS_SECONDS))
