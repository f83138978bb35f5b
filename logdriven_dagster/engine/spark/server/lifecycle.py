"""The project's Spark Connect server: a warm JVM that all runs on this machine share."""

import fcntl
import json
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from hashlib import sha256

import psutil

from logdriven_dagster.config.project import Project
from logdriven_dagster.engine.spark.classic.installation import pyspark_version
from logdriven_dagster.engine.spark.connect.metrics import status_pages
from logdriven_dagster.engine.spark.server import state as server_state
from logdriven_dagster.engine.spark.server.process import SERVER_SETTINGS, launched
from logdriven_dagster.engine.spark.server.state import Server
from logdriven_dagster.engine.spark.settings import project_settings

_STOP_SECONDS = 30.0
_POLL_SECONDS = 0.5


@dataclass(frozen=True, slots=True)
class StartedServer:
    """A server that was started or found running, and how long that took."""

    server: Server
    seconds: float
    """How long it took; 0 for one that ran already."""
    replaced: bool = False
    """Whether another one ran, with settings that have changed since."""


def settings_digest(project: Project) -> str:
    """Hash everything that makes two servers work differently."""
    identity = [project.config.spark.master, sys.executable, pyspark_version()]
    text = json.dumps([*identity, SERVER_SETTINGS, project_settings(project)], sort_keys=True)
    return sha256(text.encode()).hexdigest()[:16]


def start(project: Project, before_stop: Callable[[Server], None]) -> StartedServer:
    """Return the project's server, ready for work; started, or started anew for changed settings.

    `before_stop` is called with a server that has to go; what it raises lets it be. UsageError if
    no server comes up.
    """
    with _one_at_a_time(project):
        began, old = time.monotonic(), server_state.running(project)
        digest = settings_digest(project)
        if old is not None:
            if old.settings == digest and old.listens():
                return StartedServer(old, 0.0)
            before_stop(old)
            _end(project, old)
        server = launched(project, digest)
        server_state.write(project, server)
        return StartedServer(server, time.monotonic() - began, replaced=old is not None)


def stop(project: Project, before_stop: Callable[[Server], None]) -> Server | None:
    """End the project's server; None if there is none. `before_stop` as in `start`."""
    with _one_at_a_time(project):
        server = server_state.running(project)
        if server is not None:
            before_stop(server)
            _end(project, server)
        server_state.forget(project)
        return server


def wait_until_idle(server: Server, tell: Callable[[int], None]) -> None:
    """Wait until no run has a Spark job on the server; `tell` is called once with their number."""
    reported = False
    while jobs := jobs_running(server):
        if not reported:
            tell(jobs)
            reported = True
        time.sleep(_POLL_SECONDS)


def jobs_running(server: Server) -> int:
    """How many Spark jobs the server works on at this moment; 0 if it does not answer."""
    pages = status_pages(server.pages_port, server.application, server.token)
    try:
        return len(pages.ask("/jobs?status=running"))
    except OSError:
        return 0


def _end(project: Project, server: Server) -> None:
    """Ask the server to end, and kill it after half a minute."""
    if (process := server.process) is not None:
        with suppress(psutil.NoSuchProcess):
            process.terminate()
            if not _has_ended(server):
                process.kill()
                _has_ended(server)
    server_state.forget(project)


def _has_ended(server: Server) -> bool:
    """Whether it ends in time. Where nobody fetches its exit code its process stays a zombie."""
    deadline = time.monotonic() + _STOP_SECONDS
    while server.process is not None:
        if time.monotonic() > deadline:
            return False
        time.sleep(_POLL_SECONDS / 5)
    return True


@contextmanager
def _one_at_a_time(project: Project) -> Iterator[None]:
    """Two commands at once wait for each other instead of starting two servers."""
    folder = server_state.folder(project)
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "spark.lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
