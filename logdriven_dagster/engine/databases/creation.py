"""Creating what several processes may create at once."""

import time
from collections.abc import Callable
from typing import TypeVar

Result = TypeVar("Result")

_TRIES = 5
_PAUSE_SECONDS = 0.05


def create(work: Callable[[], Result]) -> Result:
    """Do work of the kind "create it unless it is there".

    Databases look and create in two steps, so of two processes one may fail because the other was
    faster. Then it is there, and the work, done again, finds it.
    """
    from sqlalchemy.exc import DBAPIError

    for _ in range(_TRIES - 1):
        try:
            return work()
        except DBAPIError:
            time.sleep(_PAUSE_SECONDS)
    return work()
