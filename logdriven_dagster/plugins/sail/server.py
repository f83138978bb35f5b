"""Sail's server: a child process, started on first use and ended with this process.

It listens on 127.0.0.1 and has no authentication, which Sail does not support: docs/plugins/sail.md
describes the consequences.
"""

import atexit
import os
import select
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from threading import Lock
from typing import IO, Any

from logdriven_dagster.config.project import Project
from logdriven_dagster.config.secrets import redact
from logdriven_dagster.errors import UsageError
from logdriven_dagster.plugins.sail.supported_sql import VERSION

_READY_SECONDS = 60.0
_STOP_SECONDS = 5.0
_LOG_TAIL = 2000
_OUR_OWN = ("PATH", "HOME", "TMPDIR", "LANG", "LC_ALL", "TZ")
"""Environment variables that the server inherits: none of them is a secret."""

_starting = Lock()


@dataclass(frozen=True, slots=True)
class SailServer:
    """A running server of Sail."""

    version: str
    port: int
    process: "subprocess.Popen[bytes]"

    @property
    def url(self) -> str:
        """URL that clients connect to."""
        return f"sc://127.0.0.1:{self.port}"

    @property
    def name(self) -> str:
        """Value of `job_log.application_id`."""
        return f"sail-{self.version}-{self.process.pid}"

    @property
    def lives(self) -> bool:
        return self.process.poll() is None


_running: list[SailServer] = []


def server_of(project: Project, meanwhile: Callable[[], None] = lambda: None) -> SailServer:
    """Return this process's server; start one if there is none or it has died.

    `meanwhile` is called while the server starts. Raises UsageError if `pysail` is missing or has
    another version, or if the server does not start.
    """
    with _starting:
        if _running and not _running[0].lives:
            _running.clear()
        if not _running:
            _running.append(_start(project, meanwhile))
        return _running[0]


def stop() -> None:
    """End this process's server, if there is one."""
    while _running:
        _end(_running.pop())


def _end(server: SailServer) -> None:
    process: Any = server.process
    process.stdin.close()
    try:
        process.wait(_STOP_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    process.stdout.close()


def _start(project: Project, meanwhile: Callable[[], None]) -> SailServer:
    package = find_spec("pysail")
    if package is None or package.origin is None:
        raise UsageError(
            "spark.engine: sail needs the package pysail; run `pip install "
            "'logdriven_dagster[sail]'`"
        )
    words = [sys.executable, "-I", "-S", str(Path(__file__).with_name("program.py"))]
    given = {name: os.environ[name] for name in _OUR_OWN if name in os.environ}
    with tempfile.TemporaryFile() as log:
        process = subprocess.Popen(
            [*words, str(Path(package.origin).parent)],
            env=given | _settings(project),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            start_new_session=True,
        )
        try:
            meanwhile()
            version, port = _address(process, log)
        except BaseException:
            with suppress(OSError):
                process.kill()
            process.wait()
            raise
    server = SailServer(version, port, process)
    if version != VERSION:
        _end(server)
        raise UsageError(
            f"pysail {version} is installed, but the supported version is {VERSION}; "
            f"run `pip install pysail=={VERSION}`"
        )
    atexit.register(stop)
    return server


def _settings(project: Project) -> dict[str, str]:
    """Return Sail's own settings: as many tasks as `spark.master` gives cores, and warnings only.

    A task encodes a file by itself, as in Spark. Parallel encoding within a file would take twice
    the memory for passes that write the files of hundreds of windows at once, and gain nothing.
    """
    cores = project.config.spark.master.removeprefix("local[").removesuffix("]")
    tasks = {"SAIL_EXECUTION__DEFAULT_PARALLELISM": cores} if cores.isdigit() else {}
    files = {"SAIL_PARQUET__ALLOW_SINGLE_FILE_PARALLELISM": "false"}
    return {"RUST_LOG": "warn", **files, **tasks}


def _address(process: "subprocess.Popen[bytes]", log: IO[bytes]) -> tuple[str, int]:
    """Wait for the server's line with its version and port, and return these.

    Raises UsageError with the end of the log if the line does not come.
    """
    out: Any = process.stdout
    deadline, line = time.monotonic() + _READY_SECONDS, b""
    while not line.endswith(b"\n"):
        ready, _, _ = select.select([out], [], [], max(deadline - time.monotonic(), 0))
        read = os.read(out.fileno(), 100) if ready else b""
        if not read:
            log.seek(0)
            said = redact(log.read()[-_LOG_TAIL:].decode(errors="replace").strip())
            problem = "ended while it started" if ready else "did not start in time"
            raise UsageError(f"the server of Sail {problem}; its output: {said or 'nothing'}")
        line += read
    version, port = line.decode().split()
    return version, int(port)
