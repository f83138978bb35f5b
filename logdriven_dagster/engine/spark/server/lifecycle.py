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
from logdriven_dagster.engine.spark.server.process import SERVER_SETTINGS, launch_server
from logdriven_dagster.engine.spark.server.state import Server
from logdriven_dagster.engine.spark.settings import project_settings

_STOP_SECONDS = 30.0
_POLL_SECONDS = 0.5


@dataclass(frozen=True, slots=True)
class StartedServer:
    """A server that was started or found running."""

    server: Server
    seconds: float
    """Duration of the start; 0 if the server was already running."""
    replaced: bool = False
    """True if it replaced a server whose settings had changed."""


def settings_digest(project: Project) -> str:
    """Hash all settings that affect the behavior of a server."""
    identity = [project.config.spark.master, sys.executable, pyspark_version()]
    text = json.dumps([*identity, SERVER_SETTINGS, project_settings(project)], sort_keys=True)
    return sha256(text.encode()).hexdigest()[:16]


def start(project: Project, before_stop: Callable[[Server], None]) -> StartedServer:
    """Return the project's server, ready for work; start it, or restart it for changed settings.

    `before_stop` is called with a server that must be replaced; an exception from it keeps that
    server running. Raises UsageError if no server starts.
    """
    with _one_at_a_time(project):
        began, old = time.monotonic(), server_state.running(project)
        digest = settings_digest(project)
        if old is not None:
            if old.settings == digest and old.listens():
                return StartedServer(old, 0.0)
            before_stop(old)
            _end(project, old)
        server = launch_server(project, digest)
        server_state.write(project, server)
        return StartedServer(server, time.monotonic() - began, replaced=old is not None)


def find_or_start(project: Project) -> Server:
    """Return the project's running server, with any settings; start one if there is none.

    Raises UsageError if no server starts.
    """
    found = server_state.running(project)
    if found is not None and found.listens():
        return found
    with _one_at_a_time(project):
        found = server_state.running(project)
        if found is not None and found.listens():
            return found  # another run has started it in the meantime
        server = launch_server(project, settings_digest(project))
        server_state.write(project, server)
        return server


def stop(project: Project, before_stop: Callable[[Server], None]) -> Server | None:
    """Stop the project's server and return it; None if there is none.

    `before_stop` is called first; an exception from it keeps the server running.
    """
    with _one_at_a_time(project):
        server = server_state.running(project)
        if server is not None:
            before_stop(server)
            _end(project, server)
        server_state.forget(project)
        return server


def wait_until_idle(server: Server, report: Callable[[int], None]) -> None:
    """Wait until no run has a Spark job on the server.

    `report` is called once with the number of jobs, if there are any.
    """
    reported = False
    while jobs := jobs_running(server):
        if not reported:
            report(jobs)
            reported = True
        time.sleep(_POLL_SECONDS)


def jobs_running(server: Server) -> int:
    """Return how many Spark jobs the server is running; 0 if it does not answer."""
    pages = status_pages(server.pages_port, server.application, server.token)
    try:
        return len(pages.ask("/jobs?status=running"))
    except OSError:
        return 0


def _end(project: Project, server: Server) -> None:
    """Terminate the server, and kill it after half a minute."""
    if (process := server.process) is not None:
        with suppress(psutil.NoSuchProcess):
            process.terminate()
            if not _has_ended(server):
                process.kill()
                _has_ended(server)
    server_state.forget(project)


def _has_ended(server: Server) -> bool:
    """Return whether the server ends in time. Its process stays a zombie if no parent reaps it."""
    deadline = time.monotonic() + _STOP_SECONDS
    while server.process is not None:
        if time.monotonic() > deadline:
            return False
        time.sleep(_POLL_SECONDS / 5)
    return True


@contextmanager
def _one_at_a_time(project: Project) -> Iterator[None]:
    """Serialize commands with a file lock, so that two of them do not start two servers."""
    folder = server_state.folder(project)
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "spark.lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
