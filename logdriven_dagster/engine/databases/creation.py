"""Creation of objects that several processes may create at the same time."""

import time
from collections.abc import Callable
from typing import TypeVar

Result = TypeVar("Result")

_TRIES = 5
_PAUSE_SECONDS = 0.05


def create(work: Callable[[], Result]) -> Result:
    """Run `work`, which creates an object unless it exists, and return its result.

    Databases check and create in two steps, so one of two processes may fail because the other was
    faster. The object then exists, and repeating the work finds it.
    """
    from sqlalchemy.exc import DBAPIError

    for _ in range(_TRIES - 1):
        try:
            return work()
        except DBAPIError:
            time.sleep(_PAUSE_SECONDS)
    return work()
