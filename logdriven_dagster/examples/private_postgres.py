"""A private PostgreSQL server, available in a checkout of the repository."""

import importlib.util
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import gettempdir
from types import ModuleType

from logdriven_dagster.errors import UsageError

_SCRIPT = Path(__file__).resolve().parents[2] / "scripts" / "servers.py"
_FIX = "or name a database with --url postgresql://user@host/name"


@contextmanager
def private_postgres() -> Iterator[str]:
    """Start a server and return its URL; the server and its data are removed after the block.

    Raises UsageError if a program or file is missing.
    """
    servers = _servers()
    # Outside the project folder: as root, the server's own account may not enter it.
    root = Path(gettempdir()) / f"logdriven-orders-{os.getpid()}"
    try:
        yield servers.start_postgres(root)
    except servers.MissingServerError:
        problem = "PostgreSQL is not installed here"
        raise UsageError(f"{problem}: apt-get install postgresql, {_FIX}") from None
    finally:
        servers.stop(root)


def _servers() -> ModuleType:
    """Load `scripts/servers.py`, which is not part of a package."""
    if not _SCRIPT.is_file():
        problem = "only a checkout of logdriven_dagster can start a PostgreSQL server"
        raise UsageError(f"{problem}: use one, {_FIX}")
    spec = importlib.util.spec_from_file_location("servers", _SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    servers = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(servers)
    return servers
