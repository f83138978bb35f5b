"""`logdriven run` on a standalone cluster of workers with a core each, on this machine."""

import os
import signal
import socket
import subprocess
import time
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path

from benchmarks.contestants import logdriven
from benchmarks.settings import own_environment
from benchmarks.tasks import Contestant, Task, UnavailableError

_PATIENCE_SECONDS = 120
_WORKERS = 2


def _prepare(task: Task, more: tuple[tuple[str, str], ...]) -> None:
    port = free_port()
    (task.state / "cluster").mkdir(parents=True)
    (task.state / "cluster" / "port").write_text(str(port))
    spark = (("master", f"spark://127.0.0.1:{port}"), *more)
    logdriven.write_project(task, logdriven.Variant(spark=spark))


def _start(task: Task, workers: int = _WORKERS) -> None:
    folder = task.state / "cluster"
    port = (folder / "port").read_text()
    deploy = "org.apache.spark.deploy"
    here = ["--host", "127.0.0.1", "--webui-port", "0"]
    _spawn(folder / "master", [f"{deploy}.master.Master", *here, "--port", port])
    worker = [f"{deploy}.worker.Worker", *here, "--cores", "1", "--memory", "1536m"]
    for number in range(workers):
        _spawn(folder / f"worker-{number}", [*worker, f"spark://127.0.0.1:{port}"])
    deadline = time.monotonic() + _PATIENCE_SECONDS
    log = folder / "master.log"
    while log.read_text(errors="replace").count("Registering worker") < workers:
        if time.monotonic() > deadline:
            raise UnavailableError(f"the cluster did not start: {log.read_text()[-1000:]}")
        time.sleep(0.2)


def _spawn(name: Path, words: list[str]) -> None:
    import pyspark

    program = Path(pyspark.__file__).parent / "bin" / "spark-class"
    name.mkdir(exist_ok=True)
    variables = {"SPARK_WORKER_DIR": str(name), "SPARK_NO_DAEMONIZE": "1", "SPARK_CONF_DIR": ""}
    with name.with_suffix(".log").open("w") as log:
        process = subprocess.Popen(
            [str(program), *words],
            env=own_environment() | variables | {"SPARK_LOCAL_IP": "127.0.0.1"},
            cwd=name,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    name.with_suffix(".pid").write_text(str(process.pid))


def _start_with_server(task: Task) -> None:
    _start(task)
    logdriven.server(task, "start")


def _stop_with_server(task: Task) -> None:
    logdriven.server(task, "stop")
    _stop(task)


def _stop(task: Task) -> None:
    for file in sorted((task.state / "cluster").glob("*.pid"), reverse=True):
        pid = int(file.read_text())
        with suppress(ProcessLookupError, ChildProcessError):
            os.killpg(pid, signal.SIGTERM)
            os.waitpid(pid, 0)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


_COLD = Contestant(
    "`logdriven run`, two standalone workers",
    partial(_prepare, more=()),
    logdriven.run_command,
    partial(logdriven.written, variant=logdriven.Variant()),
    before=_start,
    after=_stop,
    windows=logdriven.windows,
)

CONTESTANTS = {
    "logdriven-standalone": _COLD,
    "logdriven-one-worker": replace(
        _COLD, label="`logdriven run`, one standalone worker", before=partial(_start, workers=1)
    ),
    "logdriven-standalone-warm": replace(
        _COLD,
        label="`logdriven run`, warm Spark Connect server on two standalone workers",
        prepare=partial(_prepare, more=(("remote", "auto"),)),
        before=_start_with_server,
        after=_stop_with_server,
    ),
}
