"""Processes of this machine, distinguished from later ones with the same process id."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager

import psutil


@contextmanager
def garbage_kept() -> Iterator[None]:
    """Collect no garbage within this block, which makes many values that all stay.

    The collector would look through them, and all that was there before, again and again.
    """
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


def started_at(process: psutil.Process) -> int:
    """When a process was started, in milliseconds of the epoch."""
    return round(process.create_time() * 1000)


def living(pid: int, started: int) -> psutil.Process | None:
    """Return the process of this number that was started then; None if it has ended.

    psutil.AccessDenied: there is a process of this number, and nothing can be found out about it.
    """
    try:
        process = psutil.Process(pid)
        ended = started_at(process) != started or process.status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return None
    return None if ended else process
