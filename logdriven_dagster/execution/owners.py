"""Owners of attempts: this process, and whether another one on this machine is still alive."""

import socket
from pathlib import Path

import psutil

from logdriven_dagster.model.attempts import Owner
from logdriven_dagster.processes import living, started_at


def current_owner(dagster_run_id: str | None = None) -> Owner:
    """This process as an owner of attempts."""
    return owner_of(psutil.Process(), dagster_run_id)


def owner_of(process: psutil.Process, dagster_run_id: str | None = None) -> Owner:
    """A process of this machine as an owner of attempts."""
    return Owner(_host(), process.pid, started_at(process), dagster_run_id)


def is_dead(owner: Owner) -> bool:
    """Whether the owner is known to be gone: a process of this machine that does not exist.

    Of a process elsewhere nothing is known here, so it counts as alive.
    """
    try:
        return owner.host == _host() and process_of(owner) is None
    except psutil.AccessDenied:
        return False


def process_of(owner: Owner) -> psutil.Process | None:
    """The owner's process; None if it is gone or elsewhere.

    psutil.AccessDenied: there is a process of this number, and nothing can be told of it.
    """
    if owner.host != _host():
        return None
    return living(owner.pid, owner.started)


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
