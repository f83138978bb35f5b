"""Start of a Spark Connect server from PySpark's jars, with a project's settings.

The server is bound to 127.0.0.1 and accepts only clients with its token, which only the user who
can read `.logdriven/spark.json` has. Its command line, which every user can see, has no secrets.
"""

import os
import secrets
import socket
import subprocess
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import psutil

from logdriven_dagster.config.project import Project
from logdriven_dagster.config.secrets import redact, remember
from logdriven_dagster.engine.spark.classic.archives.archive import with_archive
from logdriven_dagster.engine.spark.classic.installation import refuse_client_alone
from logdriven_dagster.engine.spark.classic.java import ensure_java
from logdriven_dagster.engine.spark.classic.settings_files import settings_file
from logdriven_dagster.engine.spark.connect.metrics import (
    PAGES_FILTER,
    PAGES_KEY,
    PAGES_PORT,
    SERVER_ZONE,
    SETTINGS_DIGEST,
    pages_key,
    query_plan,
)
from logdriven_dagster.engine.spark.connect.mode import ConnectMode, require_packages
from logdriven_dagster.engine.spark.mode import Mark
from logdriven_dagster.engine.spark.server import state as server_state
from logdriven_dagster.engine.spark.server.state import Server, is_open
from logdriven_dagster.engine.spark.settings import launch_settings, project_settings
from logdriven_dagster.engine.storage.locations import folder_at, temporary_subfolder
from logdriven_dagster.errors import UsageError
from logdriven_dagster.private_files import private_file
from logdriven_dagster.processes import started_at

_CLASS = "org.apache.spark.sql.connect.service.SparkConnectServer"
_PORT = "spark.connect.grpc.binding.port"
_READY_SECONDS = 180.0
_POLL_SECONDS = 0.1
_LOG_TAIL = 2000
_LOG = "spark.log"
_WARM_UPS = 4
_WARM_UP = """
    SELECT id, id % 7 AS k, CAST(id AS STRING) AS text, CAST(id / 3 AS DECIMAL(12, 2)) AS amount,
           TIMESTAMP_SECONDS(id * 10) AS at
    FROM range(300000)
"""

SERVER_SETTINGS = {
    "spark.connect.grpc.binding.address": "127.0.0.1",
    # Long queries of one run must not delay short ones of other runs.
    "spark.scheduler.allocation.file": Path(__file__).with_name("fairscheduler.xml").as_uri(),
    # A port that was taken in the meantime is an error, not replaced by the next port.
    "spark.port.maxRetries": "0",
    # The status pages report row counts of writes, on this machine and only with the key.
    "spark.ui.enabled": "true",
    "spark.ui.filters": PAGES_FILTER,
    "spark.ui.retainedJobs": "200",
    "spark.ui.retainedStages": "200",
    "spark.sql.ui.retainedExecutions": "200",
    # The parent session of a long run's windows may be idle for hours.
    "spark.connect.session.manager.defaultSessionTimeout": "24h",
    # Work that a killed run left behind ends no later than the run's lease.
    "spark.connect.execute.manager.detachedTimeout": "60s",
}
"""Settings of a server in addition to those of a classic session."""

_OF_CLIENTS = ("SPARK_REMOTE", "SPARK_LOCAL_REMOTE", "SPARK_CONNECT_MODE_ENABLED")


def launch_server(project: Project, digest: str) -> Server:
    """Start a server, run its first queries and return it; raise UsageError if it fails."""
    refuse_client_alone()
    ensure_java()
    require_packages()
    token = secrets.token_hex(32)
    remember(token)
    ports = _free_ports(project_settings(project).get(_PORT))
    folder = server_state.folder(project)
    folder.mkdir(parents=True, exist_ok=True)
    with settings_file(_settings(project, digest, token, ports)) as settings:
        process = _spawn(project, settings, token)
        server = Server(
            host=socket.gethostname(),
            pid=process.pid,
            started=started_at(process),
            port=ports[0],
            pages_port=ports[1],
            application="",
            token=token,
            settings=digest,
        )
        try:
            _wait_for(process, ports[0], folder / _LOG)
            return _warm(server, project)
        except BaseException:
            with suppress(psutil.NoSuchProcess):  # it may have exited already
                process.kill()
            raise


def _settings(
    project: Project, digest: str, token: str, ports: tuple[int, int]
) -> Mapping[str, str]:
    return {
        **with_archive(launch_settings(project)),
        **SERVER_SETTINGS,
        _PORT: str(ports[0]),
        PAGES_PORT: str(ports[1]),
        PAGES_KEY: pages_key(token),
        SETTINGS_DIGEST: digest,
        SERVER_ZONE: str(project.zone),
    }


def _free_ports(wanted: str | None) -> tuple[int, int]:
    """Find a free port for the server, or check the configured one, and a port for its pages."""
    with socket.socket() as one, socket.socket() as other:
        for each in (one, other):
            each.bind(("127.0.0.1", 0))
        own, pages = one.getsockname()[1], other.getsockname()[1]
    port = int(wanted) if wanted else own
    if wanted and is_open(port):
        raise UsageError(f"spark.config: {_PORT}: port {port} is in use")
    return port, pages


def _spawn(project: Project, settings: Path, token: str) -> psutil.Popen:
    package = find_spec("pyspark")
    assert package is not None
    assert package.origin is not None
    home = Path(os.environ.get("SPARK_HOME") or Path(package.origin).parent)
    environment = {name: text for name, text in os.environ.items() if name not in _OF_CLIENTS}
    environment |= {
        "SPARK_HOME": str(home),
        "SPARK_CONNECT_AUTHENTICATE_TOKEN": token,
        "SPARK_LOCAL_IP": "127.0.0.1",  # the address of the status pages
        "PYSPARK_PYTHON": sys.executable,
        "PYSPARK_DRIVER_PYTHON": sys.executable,
    }
    options = ["--class", _CLASS, "--properties-file", str(settings), "--load-spark-defaults"]
    with private_file(server_state.folder(project) / _LOG) as log:
        return psutil.Popen(
            [str(home / "bin" / "spark-submit"), *options, "spark-internal"],
            env=environment,
            cwd=project.root,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )


def _wait_for(process: psutil.Popen, port: int, log: Path) -> None:
    """Wait until the port is open; raise UsageError with the end of the log if the server fails."""
    deadline = time.monotonic() + _READY_SECONDS
    while not is_open(port):
        ended = process.poll() is not None
        if ended or time.monotonic() > deadline:
            problem = "ended while it started" if ended else "did not start in time"
            said = redact(log.read_text(errors="replace").strip()[-_LOG_TAIL:])
            raise UsageError(f"the Spark server {problem}; output in {log}:\n{said or 'nothing'}")
        time.sleep(_POLL_SECONDS)


def _warm(server: Server, project: Project) -> Server:
    """Run typical window queries on a new server until its classes are loaded and compiled.

    It writes to the staging folder of windows, since the executors of a cluster share no other
    folder.
    """
    from pyspark.sql.connect.session import SparkSession

    session: Any = SparkSession(server.url)
    staging = folder_at(project.staging, project.storage)
    mode, mark = ConnectMode(), Mark("warm up", "logdriven-warm-up")
    try:
        mode.mark(session, mark)
        with temporary_subfolder(staging, "warm-up") as folder:
            for n in range(_WARM_UPS):
                rows = session.sql(_WARM_UP)
                rows.write.parquet(f"{folder.location}/{n}")
                query_plan(session, mark.tag)
                day = session.read.parquet(f"{folder.location}/{n}").where(
                    "at < TIMESTAMP '1970-01-08'"
                )
                day.coalesce(1).write.parquet(f"{folder.location}/day{n}")
                day.groupBy("k").count().collect()
        return replace(server, application=mode.application_id(session))
    finally:
        mode.release(session)
