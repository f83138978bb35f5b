"""Processes of this machine, distinguished from later ones with the same process id."""

import gc
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil

_LOWEST_PRIORITY = 19
_FIRST_TO_KILL = 1000
_CONTROL_GROUPS = Path("/sys/fs/cgroup")
_MEMORY_FILES = {
    "": ("memory.max", "memory.current", "file"),
    "memory": ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_cache"),
}
"""Folder of the controller → limit, usage, and cache in memory.stat, of versions 2 and 1."""


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


def lower_priority(process: psutil.Process) -> None:
    """Let all other processes have the processor first, and let Linux end this one first.

    The process must be the first of its session. Its children inherit the priority.
    """
    with suppress(psutil.Error):
        process.nice(_LOWEST_PRIORITY)
    # Linux divides processor time among sessions, then by priority within each one. If memory runs
    # out, it kills the process with the highest score.
    for name, value in (("autogroup", _LOWEST_PRIORITY), ("oom_score_adj", _FIRST_TO_KILL)):
        with suppress(OSError):
            Path(f"/proc/{process.pid}/{name}").write_text(str(value))


def available_memory(groups: Path = _CONTROL_GROUPS) -> int:
    """Return the bytes that this process could use without swapping, within its container."""
    left = [int(psutil.virtual_memory().available)]
    for controller, files in _MEMORY_FILES.items():
        folders = [groups / controller, groups / controller / _own_group(controller)]
        left += [_memory_left(folder, *files) for folder in folders if (folder / files[0]).exists()]
    return min(left)


def _own_group(controller: str) -> str:
    """Return the path of this process's control group, relative to that of the container."""
    with suppress(OSError):
        for line in Path("/proc/self/cgroup").read_text().splitlines():
            _, controllers, path = line.split(":", 2)
            if controller in controllers.split(","):
                return path.lstrip("/")
    return ""


def _memory_left(folder: Path, limit: str, usage: str, cache: str) -> int:
    """Return the bytes up to the limit of a control group; a cache of files can be dropped."""
    most = (folder / limit).read_text().strip()
    stat = dict(line.split() for line in (folder / "memory.stat").read_text().splitlines())
    used = int((folder / usage).read_text()) - int(stat.get(cache, 0))
    return sys.maxsize if most == "max" else int(most) - used
