"""Processes of this machine, distinguished from later ones with the same process id."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager

import psutil


@contextmanager
def garbage_kept() -> Iterator[None]:
    """Disable garbage collection within this block, which creates many long-lived values.

    The collector would repeatedly traverse them, together with all earlier values.
    """
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


def started_at(process: psutil.Process) -> int:
    """Return the start time of a process, in milliseconds since the epoch."""
    return round(process.create_time() * 1000)


def living(pid: int, started: int) -> psutil.Process | None:
    """Return the process with this id and start time; None if it has ended.

    Raises psutil.AccessDenied if a process has this id, but its details cannot be read.
    """
    try:
        process = psutil.Process(pid)
        ended = started_at(process) != started or process.status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return None
    return None if ended else process
