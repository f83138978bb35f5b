"""Retry with back-off: how long to wait after so many failures in a row."""

from datetime import timedelta
from typing import TypeVar

Pause = TypeVar("Pause", float, timedelta)

_MOST_DOUBLINGS = 16


def back_off(failures: int, first: Pause, longest: Pause) -> Pause:
    """The pause before the next try: `first` after one failure, then twice as long each time.

    Never longer than `longest`.
    """
    times: int = 2 ** min(failures - 1, _MOST_DOUBLINGS)
    return min(first * times, longest)
