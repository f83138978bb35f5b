"""Hosts that share nothing, on one machine: namespaces of networks, mounts, processes and names.

A host sees the programs of this machine, which it cannot change, a disk of its own at `/srv`, and
memory of its own at `/tmp` and the like. Cables lead to a switch, and can be cut.
"""

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeAlias

import psutil

ROOT = Path(__file__).resolve().parents[2]
DISK = Path("/srv")
PROGRAMS = f"{ROOT}/.venv/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_MEMORY = ("/tmp", "/var/tmp", "/dev/shm", "/run")
_INIT = Path(__file__).with_name("init.py")
_NETWORK = "10.77.0"
Process: TypeAlias = "subprocess.Popen[str]"


@dataclass
class Host:
    """A machine with a name, an address, and a disk that outlives it."""

    name: str
    number: int
    disk: Path
    hosts_file: Path
    switch: "Switch"
    _namespaces: Process = field(init=False, repr=False)
    _init: int = field(init=False, repr=False)

    @property
    def address(self) -> str:
        return f"{_NETWORK}.{self.number}"

    def boot(self) -> None:
        """Start the machine: nothing runs on it."""
        self.disk.mkdir(parents=True, exist_ok=True)
        kinds = ["--net", "--mount", "--uts", "--pid", "--fork", "--mount-proc"]
        given = [self.name, str(self.disk), str(self.hosts_file), *_MEMORY]
        self._namespaces = subprocess.Popen(
            ["setpriv", "--pdeathsig", "KILL", "unshare", *kinds, sys.executable, _INIT, *given],
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self._namespaces.stdout is not None
        assert self._namespaces.stdout.readline() == "up\n", f"{self.name} did not boot"
        (self._init,) = (p.pid for p in psutil.Process(self._namespaces.pid).children())
        self.switch.plug_in(self.name, self._init)
        self.run("ip", "address", "add", f"{self.address}/24", "dev", "eth0")
        for device in ("lo", "eth0"):
            self.run("ip", "link", "set", device, "up")

    def power_off(self) -> None:
        """End all of its processes at once, as a power failure does; its disk stays."""
        first = psutil.Process(self._init)
        self._namespaces.kill()
        self._namespaces.wait()
        first.wait()
        self.switch.unplug(self.name)

    def start(self, *command: str | Path, log: str, **variables: str) -> Process:
        """Start a program, which writes into a file on the host's disk."""
        with (self.disk / f"{log}.log").open("a") as written:
            return subprocess.Popen(
                self._entered(command, variables),
                cwd=ROOT,
                stdin=subprocess.DEVNULL,
                stdout=written,
                stderr=subprocess.STDOUT,
                text=True,
            )

    def run(self, *command: str | Path, timeout: float = 600, **variables: str) -> str:
        """Run a program to its end; what it printed. RuntimeError if it fails."""
        done = self.attempt(*command, timeout=timeout, **variables)
        if done.returncode:
            raise RuntimeError(f"{self.name}: {command}: {done.stdout[-4000:]}")
        return done.stdout

    def attempt(
        self, *command: str | Path, timeout: float = 600, **variables: str
    ) -> "subprocess.CompletedProcess[str]":
        """Run a program to its end, well or not."""
        return subprocess.run(
            self._entered(command, variables),
            cwd=ROOT,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=timeout,
            check=False,
        )

    def _entered(self, command: tuple[str | Path, ...], variables: Mapping[str, str]) -> list[str]:
        enter = ["nsenter", f"--target={self._init}", "--net", "--mount", "--uts", "--pid"]
        kept = {name: os.environ[name] for name in ("LANG", "JAVA_HOME") if name in os.environ}
        given = {"PATH": PROGRAMS, "HOME": "/tmp", "PYTHONPATH": str(ROOT), **kept, **variables}
        clean = ["env", "--ignore-environment", *(f"{n}={v}" for n, v in given.items())]
        return [*enter, *clean, *map(str, command)]


class Switch:
    """Joins hosts; a cut cable swallows what is sent, and nobody is told."""

    def __init__(self) -> None:
        held = ["setpriv", "--pdeathsig", "KILL", "unshare", "--net", "sleep", "infinity"]
        self._process = subprocess.Popen(held)
        while (name := Path(f"/proc/{self._process.pid}/comm").read_text()) != "sleep\n":
            assert name  # setpriv and unshare become sleep
        self._ip("link", "add", "switch", "type", "bridge")
        self._ip("link", "set", "switch", "up")

    def plug_in(self, name: str, process: int) -> None:
        """Lay a cable to a host, which knows its end as `eth0`."""
        there = ["peer", "name", "eth0", "netns", str(process)]
        self._ip("link", "add", name, "type", "veth", *there)
        self.mend(name)
        self._ip("link", "set", name, "up")

    def unplug(self, name: str) -> None:
        """Take the cable away, which otherwise goes with the host, but some time later."""
        with suppress(subprocess.CalledProcessError):
            self._ip("link", "delete", name)

    def cut(self, name: str) -> None:
        self._ip("link", "set", name, "nomaster")

    def mend(self, name: str) -> None:
        self._ip("link", "set", name, "master", "switch")

    def remove(self) -> None:
        self._process.kill()
        self._process.wait()

    def _ip(self, *words: str) -> None:
        enter = ["nsenter", f"--target={self._process.pid}", "--net", "ip"]
        subprocess.run([*enter, *words], check=True)


@contextmanager
def machines(*names: str) -> Iterator[dict[str, Host]]:
    """Hosts of these names, booted; what they were and had is gone with the block."""
    folder = Path(tempfile.mkdtemp(prefix="logdriven-hosts-", dir="/tmp"))
    folder.chmod(0o755)
    hosts_file, switch = folder / "hosts", Switch()
    hosts = {
        name: Host(name, number, folder / name, hosts_file, switch)
        for number, name in enumerate(names, 1)
    }
    lines = ["127.0.0.1 localhost", *(f"{host.address} {name}" for name, host in hosts.items())]
    hosts_file.write_text("\n".join(lines) + "\n")
    try:
        for host in hosts.values():
            host.boot()
        yield hosts
    finally:
        for host in hosts.values():
            host.power_off()
        switch.remove()
        shutil.rmtree(folder, ignore_errors=True)
