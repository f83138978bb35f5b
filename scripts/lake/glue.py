"""Glue as a catalog: moto's server, in memory of this process."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def glue() -> Iterator[str]:
    """The URL of a Glue that runs while the context is open."""
    from moto.server import ThreadedMotoServer

    logging.getLogger("werkzeug").setLevel(logging.WARNING)  # it tells every request
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    try:
        host, port = server.get_host_and_port()
        yield f"http://{host}:{port}"
    finally:
        server.stop()


def properties(url: str) -> dict[str, str]:
    """The `catalog:` block of a project that uses it."""
    return {
        "type": "glue",
        "glue.endpoint": url,
        "glue.region": "eu-central-1",
        "glue.access-key-id": "glue-access-key",
        "glue.secret-access-key": "glue-secret-access-key",
    }
