"""State of a project's Spark Connect server, kept in `.logdriven/spark.json`.

The file holds the server's token, so only its owner can read it. A file is ignored if its process
has ended, or if the process id now belongs to another process.
"""

import json
import socket
from dataclasses import asdict, dataclass
from pathlib import Path
from urllib.parse import quote

import psutil

from logdriven_dagster.config.project import Project
from logdriven_dagster.config.secrets import remember
from logdriven_dagster.private_files import is_ours, private_file
from logdriven_dagster.processes import living

_ANSWERS_WITHIN_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class Server:
    """A running server of Spark Connect on this machine."""

    host: str
    """The machine's name: the project's folder may be on a shared disk."""
    pid: int
    started: int
    """Start time of the process in ms since the epoch, because process ids are reused."""
    port: int
    pages_port: int
    """The port of the status pages."""
    application: str
    """Spark's application id."""
    token: str
    settings: str
    """Digest of the settings that it was started with."""

    @property
    def url(self) -> str:
        """URL for clients, with the token, which PySpark sends to `localhost` only."""
        return f"sc://localhost:{self.port}/;token={quote(self.token)}"

    @property
    def process(self) -> psutil.Process | None:
        """The server's process; None if it has ended."""
        return living(self.pid, self.started)

    def listens(self) -> bool:
        """Return whether its port accepts connections."""
        return is_open(self.port)


def is_open(port: int) -> bool:
    """Return whether a process listens on a port of this machine."""
    try:
        socket.create_connection(("127.0.0.1", port), _ANSWERS_WITHIN_SECONDS).close()
    except OSError:
        return False
    return True


def folder(project: Project) -> Path:
    """Return the folder of a project's server state and log."""
    return project.root / ".logdriven"


def running(project: Project) -> Server | None:
    """Return the project's server, if its process lives on this machine.

    A file that another user could have written is ignored: it may lead to a server of that user.
    """
    if not is_ours(_file(project)):
        return None
    try:
        server = Server(**json.loads(_file(project).read_text()))
    except (OSError, ValueError, TypeError):
        return None
    remember(server.token)
    if server.host != socket.gethostname() or server.process is None:
        return None
    return server


def write(project: Project, server: Server) -> None:
    """Write the server's state, for clients that connect from now on."""
    draft = _file(project).with_suffix(".new")
    with private_file(draft) as file:
        json.dump(asdict(server), file)
    draft.replace(_file(project))


def forget(project: Project) -> None:
    """Remove the state of a server that has ended."""
    _file(project).unlink(missing_ok=True)


def _file(project: Project) -> Path:
    return folder(project) / "spark.json"
