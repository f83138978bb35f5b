"""Retry with exponential back-off."""

from datetime import timedelta
from typing import TypeVar

Pause = TypeVar("Pause", float, timedelta)

_MOST_DOUBLINGS = 16


def compute_back_off(failures: int, first: Pause, longest: Pause) -> Pause:
    """Return the pause before the next try: `first` after one failure, then doubled each time.

    Never longer than `longest`. `failures` counts consecutive failures.
    """
    times: int = 2 ** min(failures - 1, _MOST_DOUBLINGS)
    return min(first * times, longest)
