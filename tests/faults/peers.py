"""A database server of the harness's own, which can be killed, and whose sessions can be ended."""

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

import sqlalchemy as sa
from sqlalchemy.engine import URL, make_url
from sqlalchemy.pool import NullPool

from scripts import servers
from tests.servers import server_folder

URL_VARIABLE = "FAULTS_URL"
"""Where a runner finds the server; the project names this variable."""

STARTS = {"postgresql": servers.start_postgres, "mariadb": servers.start_mariadb}
_LIBRARIES = Path(os.environ.get("FAULTS_LIBRARIES", "/usr/lib"))
_FAKED = next(_LIBRARIES.glob("*/faketime/libfaketime.so.1"), None)
_CLOCK = "clock"
_SESSIONS = {
    "postgresql": "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
    "WHERE datname = '{database}' AND pid <> pg_backend_pid()",
    "mysql": "SELECT id FROM information_schema.processlist WHERE db = '{database}' "
    "AND id <> CONNECTION_ID()",
}


@dataclass(frozen=True)
class Peer:
    """A database on a private server."""

    root: Path
    url: URL

    @property
    def text(self) -> str:
        """The URL, as this process reaches it."""
        return self.url.render_as_string(hide_password=False)

    def through(self, port: int) -> str:
        """The URL by way of another port."""
        return self.url.set(port=port).render_as_string(hide_password=False)

    def kill(self) -> None:
        """Kill the server as a crash does, and start it again."""
        with _own_clock(self.root):
            servers.restart(self.root, self.text, signal.SIGKILL)

    @property
    def has_own_clock(self) -> bool:
        """Whether the server's clock can be set, which takes libfaketime."""
        return _FAKED is not None

    def set_clock(self, by: timedelta) -> None:
        """Set the server's clock forward or back; what measures durations goes on as before."""
        clock = self.root / _CLOCK
        clock.write_text(f"{int(clock.read_text()) + by.total_seconds():+.0f}")

    def end_sessions(self) -> None:
        """End all sessions of the database from the server's side."""
        engine = sa.create_engine(self.url, poolclass=NullPool)
        query = _SESSIONS[engine.dialect.name].format(database=self.url.database)
        with engine.connect() as conn:
            found = conn.execute(sa.text(query)).scalars().all()
            for number in found if engine.dialect.name == "mysql" else ():
                with suppress(sa.exc.OperationalError):  # it has gone by itself
                    conn.execute(sa.text(f"KILL {int(number)}"))
        engine.dispose()


@contextmanager
def _own_clock(root: Path) -> Iterator[None]:
    """Let a server that is started here ask the file `clock` by how many seconds to be wrong."""
    clock = root / _CLOCK
    if not clock.exists():
        root.mkdir(exist_ok=True)
        clock.write_text("+0")
    added = {"FAKETIME_TIMESTAMP_FILE": str(clock), "FAKETIME_CACHE_DURATION": "1"}
    added |= {"LD_PRELOAD": str(_FAKED), "FAKETIME_DONT_FAKE_MONOTONIC": "1"}
    os.environ.update(added if _FAKED else {})
    try:
        yield
    finally:
        for name in added:
            os.environ.pop(name, None)


@contextmanager
def private_server(kind: str) -> Iterator[Path]:
    """The folder of a private server, which ends with the block; its URL is in `url.txt`."""
    root = server_folder("faults")
    try:
        with _own_clock(root):
            url = STARTS[kind](root)
        (root / "url.txt").write_text(url)
        yield root
    finally:
        servers.stop(root)


def new_peer(root: Path, name: str) -> Peer:
    """An empty database on the server in a folder, which `URL_VARIABLE` names from now on."""
    beside = make_url((root / "url.txt").read_text())
    engine = sa.create_engine(beside, isolation_level="AUTOCOMMIT", poolclass=NullPool)
    with engine.connect() as conn:
        conn.execute(sa.text(f"CREATE DATABASE {name}"))
    peer = Peer(root, beside.set(database=name))
    os.environ[URL_VARIABLE] = peer.text
    return peer
