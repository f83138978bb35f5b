"""Glue as a catalog: moto's server, in memory of this process."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock
from typing import Any
from unittest.mock import patch

_one_at_a_time = Lock()


@contextmanager
def glue() -> Iterator[str]:
    """The URL of a Glue that runs while the context is open."""
    from moto.server import ThreadedMotoServer

    logging.getLogger("werkzeug").setLevel(logging.WARNING)  # it tells every request
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    with _comparing():
        server.start()
        try:
            host, port = server.get_host_and_port()
            yield f"http://{host}:{port}"
        finally:
            server.stop()


@contextmanager
def _comparing() -> Iterator[None]:
    """Let moto compare and swap: it ignores `VersionId`, with which Glue refuses a stale update."""
    from moto.glue.exceptions import GlueClientError
    from moto.glue.responses import GlueResponse

    swap = GlueResponse.update_table

    def update_table(self: Any) -> Any:
        with _one_at_a_time:
            seen, given = self.parameters.get("VersionId"), self.parameters["TableInput"]
            table = self.glue_backend.get_table(self.parameters["DatabaseName"], given["Name"])
            if seen is not None and seen != table.as_dict()["VersionId"]:
                told = f"the table is at version {table.as_dict()['VersionId']}, not {seen}"
                raise GlueClientError("ConcurrentModificationException", told)
            return swap(self)

    with patch.object(GlueResponse, "update_table", update_table):
        yield


def properties(url: str) -> dict[str, str]:
    """The `catalog:` block of a project that uses it."""
    return {
        "type": "glue",
        "glue.endpoint": url,
        "glue.region": "eu-central-1",
        "glue.access-key-id": "glue-access-key",
        "glue.secret-access-key": "glue-secret-access-key",
    }
