"""Owners of attempts: this process, and the check that another one on this machine is alive."""

import socket
from pathlib import Path

import psutil

from logdriven_dagster.model.attempts import Owner
from logdriven_dagster.processes import living, started_at


def current_owner(dagster_run_id: str | None = None) -> Owner:
    """Return this process as an owner of attempts."""
    return owner_of(psutil.Process(), dagster_run_id)


def owner_of(process: psutil.Process, dagster_run_id: str | None = None) -> Owner:
    """Return a process of this machine as an owner of attempts."""
    return Owner(_host(), process.pid, started_at(process), dagster_run_id)


def is_dead(owner: Owner) -> bool:
    """Return True if the owner is a process of this machine that does not exist any more.

    A process of another machine counts as alive, since its state is unknown here.
    """
    try:
        return owner.host == _host() and process_of(owner) is None
    except psutil.AccessDenied:
        return False


def process_of(owner: Owner) -> psutil.Process | None:
    """Return the owner's process; None if it is gone or elsewhere.

    Raises psutil.AccessDenied if a process with this number exists, but cannot be inspected.
    """
    if owner.host != _host():
        return None
    return living(owner.pid, owner.started)


def _host() -> str:
    """Return the host name and, on Linux, the boot and the process namespace.

    Cloned machines share names, and containers reuse process numbers.
    """
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii")[:8]
        namespace = Path("/proc/self/ns/pid").stat().st_ino
    except OSError:
        return socket.gethostname()
    return f"{socket.gethostname()}/{boot}.{namespace}"
