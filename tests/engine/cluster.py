"""A standalone cluster of two workers, each with an address of its own and one core."""

import os
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from importlib.util import find_spec
from pathlib import Path

from tests.engine.foreign import free_port
from tests.patience import PATIENCE

_DEPLOY = "org.apache.spark.deploy"


@contextmanager
def cluster(folder: Path) -> Iterator[str]:
    """A cluster that is ready for work, its files below a folder; the master's URL.

    Spark never runs a second copy of a task at the address of the first one.
    """
    url, log = f"spark://127.0.0.1:{free_port()}", folder / "master.log"
    with ExitStack() as running:
        port = url.rpartition(":")[2]
        running.enter_context(_daemon(log, "127.0.0.1", "master.Master", "--port", port))
        for number in (2, 3):
            work = folder / f"worker{number}"
            given = ["--cores", "1", "--memory", "1g", "--work-dir", str(work), url]
            address = f"127.0.0.{number}"
            running.enter_context(
                _daemon(work.with_suffix(".log"), address, "worker.Worker", *given)
            )
        deadline = time.monotonic() + PATIENCE
        while log.read_text().count("Registering worker") < 2:
            assert time.monotonic() < deadline, log.read_text()
            time.sleep(0.1)
        yield url


@contextmanager
def _daemon(log: Path, address: str, name: str, *given: str) -> Iterator[None]:
    package = find_spec("pyspark")
    assert package is not None
    home = Path(str(package.origin)).parent
    java = {"SPARK_HOME": str(home), "SPARK_LOCAL_IP": address, "SPARK_DAEMON_MEMORY": "256m"}
    place = ["--host", address, "--webui-port", "0"]
    with log.open("w") as file:
        process = subprocess.Popen(
            [home / "bin/spark-class", f"{_DEPLOY}.{name}", *place, *given],
            env={**os.environ, **java},
            stdout=file,
            stderr=subprocess.STDOUT,
        )
    try:
        yield
    finally:
        process.terminate()
        process.wait(30)
