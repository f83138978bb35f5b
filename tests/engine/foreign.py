"""A Spark Connect server as other people start theirs: it has nothing of ours."""

import os
import socket
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path

_CLASS = "org.apache.spark.sql.connect.service.SparkConnectServer"
_PATIENCE_SECONDS = 120


@contextmanager
def foreign_server(
    folder: Path, settings: Mapping[str, str] = {}, port: int | None = None
) -> Iterator[str]:
    """A server that is ready for work, its files below a folder; the URL."""
    package = find_spec("pyspark")
    assert package is not None
    home = Path(str(package.origin)).parent
    port = port or free_port()
    configured = {
        "spark.connect.grpc.binding.port": str(port),
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.memory": "1g",
        "spark.ui.enabled": "false",
        "spark.master": "local[2]",
        **settings,
    }
    options = [part for pair in configured.items() for part in ("--conf", "=".join(pair))]
    with (folder / "foreign.log").open("w") as log:
        server = subprocess.Popen(
            [home / "bin/spark-submit", "--class", _CLASS, *options, "spark-internal"],
            env={**os.environ, "SPARK_HOME": str(home), "SPARK_LOCAL_IP": "127.0.0.1"},
            cwd=folder,
            stdout=log,
            stderr=subprocess.STDOUT,
        )
    try:
        _wait_for(port, server, folder / "foreign.log")
        yield f"sc://127.0.0.1:{port}"
    finally:
        server.terminate()
        server.wait(30)


def free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


def _wait_for(port: int, server: "subprocess.Popen[bytes]", log: Path) -> None:
    deadline = time.monotonic() + _PATIENCE_SECONDS
    while True:
        with socket.socket() as tried:
            if tried.connect_ex(("127.0.0.1", port)) == 0:
                return
        assert server.poll() is None, log.read_text()[-2000:]
        assert time.monotonic() < deadline, log.read_text()[-2000:]
        time.sleep(0.2)
