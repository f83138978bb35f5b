"""Running one whole process and measuring what it took, the JVMs that it leaves behind included.

Linux only: orphans are adopted (PR_SET_CHILD_SUBREAPER), so that a JVM which outlives the Python
that started it is waited for and its processor time counted, and so that the next contestant does
not begin while it is still shutting down.
"""

import ctypes
import os
import resource
import subprocess
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import psutil

from benchmarks.tasks import Command

_SET_CHILD_SUBREAPER = 36
_SHUTDOWN_SECONDS = 300
"""In which what a contestant leaves behind ends by itself, such as what makes an archive."""
_TAIL = 3000


@dataclass(frozen=True, slots=True)
class Measured:
    """What one process took."""

    seconds: float
    """From its start to its end, as its caller sees it."""
    cpu_seconds: float
    """User and system, of it and of everything that it started."""
    server_cpu_seconds: float
    """The same of what the suite had started before: a warm server, a cluster, a database."""
    peak_mb: float
    """The largest single process."""


class ProcessFailedError(Exception):
    """The process ended with an error or too late; the message holds the end of its output."""


def adopt_orphans() -> None:
    """Make this process the parent of whatever its children leave behind."""
    ctypes.CDLL(None, use_errno=True).prctl(_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def run(command: Command, log: Path, timeout: float) -> Measured:
    """Run a process to its end; ProcessFailedError if it does not succeed in time."""
    servers = psutil.Process().children()
    before = _cpu_of(servers)
    with log.open("wb") as output:
        began = time.perf_counter()
        process = subprocess.Popen(
            command.arguments,
            env=dict(command.variables),
            cwd=command.folder,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
        )
        try:
            status, used = _wait(process.pid, began + timeout)
        except BaseException:
            _kill(process.pid)
            raise
        seconds = time.perf_counter() - began
    process.returncode = status or 0  # it is reaped: Popen must not wait for its number again
    usages = [used, *_end_orphans(servers)]
    if status != 0:
        why = "did not end in time" if status is None else f"ended with {status}"
        raise ProcessFailedError(f"{why}: {log.read_text(errors='replace')[-_TAIL:]}")
    cpu = sum(usage.ru_utime + usage.ru_stime for usage in usages)
    peak = max(usage.ru_maxrss for usage in usages) / 1024
    return Measured(seconds, cpu, _cpu_of(servers) - before, peak)


def _wait(pid: int, deadline: float) -> tuple[int | None, resource.struct_rusage]:
    """The exit status, None if the process had to be killed, and what it used."""
    while time.perf_counter() < deadline:
        # Waiting in the kernel would be exact, too, but could not be ended by the deadline.
        found, status, used = os.wait4(pid, os.WNOHANG)
        if found:
            return os.waitstatus_to_exitcode(status), used
        time.sleep(0.005)
    _kill(pid)
    _, _, used = os.wait4(pid, 0)
    return None, used


def _kill(pid: int) -> None:
    """End a process and everything that it started."""
    with suppress(psutil.NoSuchProcess):
        for child in [*psutil.Process(pid).children(recursive=True), psutil.Process(pid)]:
            with suppress(psutil.NoSuchProcess):
                child.kill()


def _end_orphans(servers: Sequence[psutil.Process]) -> list[resource.struct_rusage]:
    """Wait for adopted processes to end by themselves, or end them; what they used.

    Servers were there before, and are left alone.
    """
    usages, deadline = [], time.monotonic() + _SHUTDOWN_SECONDS
    while orphans := [child for child in psutil.Process().children() if child not in servers]:
        for orphan in orphans:
            with suppress(ChildProcessError):
                found, _, used = os.wait4(orphan.pid, os.WNOHANG)
                usages += [used] if found else []
            if time.monotonic() > deadline:
                with suppress(psutil.NoSuchProcess):
                    orphan.kill()
        time.sleep(0.02)
    return usages


def _cpu_of(servers: Sequence[psutil.Process]) -> float:
    """Seconds of servers, and of those of their children that have ended."""
    total = 0.0
    for server in servers:
        with suppress(psutil.NoSuchProcess):
            for process in (server, *server.children(recursive=True)):
                used = process.cpu_times()
                total += used.user + used.system + used.children_user + used.children_system
    return total
