"""Who runs: this process, and whether another one on this machine is still alive."""

import os
import socket
from pathlib import Path

import psutil

from logdriven_dagster.model.attempts import Owner


def current_owner(dagster_run_id: str | None = None) -> Owner:
    """This process as an owner of attempts."""
    return Owner(_host(), os.getpid(), _started(psutil.Process()), dagster_run_id)


def is_dead(owner: Owner) -> bool:
    """Whether the owner is known to be gone: a process of this machine that does not exist.

    Of a process elsewhere nothing is known here, so it counts as alive.
    """
    if owner.host != _host():
        return False
    try:
        process = psutil.Process(owner.pid)
        return _started(process) != owner.started or process.status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True
    except psutil.AccessDenied:
        return False


def _host() -> str:
    """The host name and, on Linux, this boot and the process namespace.

    Cloned machines share names, and containers number processes anew.
    """
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii")[:8]
        namespace = Path("/proc/self/ns/pid").stat().st_ino
    except OSError:
        return socket.gethostname()
    return f"{socket.gethostname()}/{boot}.{namespace}"


def _started(process: psutil.Process) -> int:
    return round(process.create_time() * 1000)
