"""Pauses that end at once where there is nothing to wait for any more."""

import time
from collections.abc import Callable

_LOOKS_SECONDS = 0.2


def pause(seconds: float, check: Callable[[], None]) -> None:
    """Wait before a retry; `check`, which is called all the while, raises where that is in vain."""
    end = time.monotonic() + seconds
    while (left := end - time.monotonic()) > 0:
        check()
        time.sleep(min(left, _LOOKS_SECONDS))
