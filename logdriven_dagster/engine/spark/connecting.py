"""Choice of a project's Spark Connect server, and the process's session on it."""

import atexit
import ipaddress
import logging
import os
import socket
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from logdriven_dagster.config.locations import as_path, is_remote, resolve_location
from logdriven_dagster.config.models.tables import TableConfig
from logdriven_dagster.config.project import REMOTE_VARIABLE, Project
from logdriven_dagster.config.secrets import redact, resolve
from logdriven_dagster.engine.spark import dead_sessions
from logdriven_dagster.engine.spark.classic import internals
from logdriven_dagster.engine.spark.server import state as server_state
from logdriven_dagster.engine.spark.settings import resolve_settings
from logdriven_dagster.errors import UsageError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_PORT = 15002
_PATIENCE_SECONDS = 5.0

_log = logging.getLogger(__name__)


def remote_url(project: Project) -> str | None:
    """Return the server's URL, which includes secrets; None for a classic session.

    `remote: server` starts the project's server if it does not run. `LOGDRIVEN_SPARK_REMOTE`
    overrides the project. Raises UsageError if that server does not start, or if a server runs on
    another machine and cannot access the project's folders.
    """
    wanted = project.spark_remote
    if wanted == "classic":
        return None
    if wanted in ("auto", "server"):
        return _own_url(project, starts=wanted == "server")
    if not wanted.startswith("sc://"):
        raise UsageError(
            f"{REMOTE_VARIABLE}={redact(wanted)}: expected classic, auto, server or sc://host:port"
        )
    try:
        url = resolve(wanted, "token")
    except UsageError as error:
        raise UsageError(f"spark.remote: {error}") from None
    shared = project.config.spark.shared_files or is_remote(project.warehouse)
    if not (shared or _is_this_machine(urlsplit(url).hostname or "")):
        raise UsageError(
            f"spark.remote: {urlsplit(url).hostname} is another machine, but the "
            f"warehouse {as_path(project.warehouse)} is a folder of this one; if the "
            "server sees the project and the warehouse under the same paths, set "
            "spark.shared_files: true; or use a warehouse in an object store, such as "
            "s3://bucket/folder"
        )
    return url


def _own_url(project: Project, *, starts: bool) -> str | None:
    """Return the URL of the project's own server, if it has the current settings.

    If it `starts`, a server that does not run is started.
    """
    from logdriven_dagster.engine.spark.server.lifecycle import find_or_start, settings_digest

    server = find_or_start(project) if starts else server_state.running(project)
    if server is None or not server.listens():
        return None
    if server.settings != settings_digest(project):
        _log.warning(
            "the Spark server of %s runs with settings that have changed since, so "
            "this run starts its own Spark; restart the server with `logdriven spark "
            "start`",
            project.name,
        )
        return None
    return server.url


def refuse_unseen_files(project: Project, table: TableConfig) -> None:
    """Raise UsageError if a server on another host would read a source in a folder of this host."""
    wanted = project.spark_remote
    host = urlsplit(wanted).hostname or ""
    seen = project.config.spark.shared_files or not wanted.startswith("sc://")
    if seen or _is_this_machine(host):
        return
    for step in table.steps:
        path = getattr(step.source, "path", None)
        # The value of a variable is known when a window runs.
        if path is None or path.startswith("${"):
            continue
        if resolve_location(project.resolve_path(path)).startswith("file:"):
            raise UsageError(
                f"step {step.step}: its files {path} are on this host, where Spark on {host} "
                "cannot read them; put them into an object store and use their URL, such "
                "as s3://bucket/folder, or set spark.shared_files: true if it can read "
                "this folder"
            )


def _is_this_machine(host: str) -> bool:
    if host.lower() in ("localhost", socket.gethostname().lower()):
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def connect(project: Project, url: str) -> "SparkSession":
    """Return the process's session on a server.

    Raises UsageError if no server answers, a package is missing, or the process has a classic
    session.
    """
    from logdriven_dagster.engine.spark.connect.metrics import is_ours
    from logdriven_dagster.engine.spark.connect.mode import refuse_other_zone, require_packages

    require_packages()
    if internals.has_context():
        raise UsageError(
            "this process has a classic Spark session; use another process for a server"
        )
    place = urlsplit(url)
    try:
        socket.create_connection((place.hostname, place.port or _PORT), _PATIENCE_SECONDS).close()
        session = _session(url)
        # A server keeps abandoned sessions for hours.
        atexit.register(session.stop)
        dead_sessions.register_session(session)
        if not is_ours(session):
            _warn_about_fixed_settings(session, project)
        refuse_other_zone(session, project)
    except UsageError:
        raise
    except Exception as error:  # noqa: BLE001 - sockets, gRPC and PySpark have no common type
        problem = (
            f"the Spark Connect server at {place.netloc} does not answer: {redact(str(error))}"
        )
        raise UsageError(problem) from None
    return session


def _session(url: str) -> "SparkSession":
    """Return the process's session, made as by `SparkSession.builder.remote`, over our channel."""
    from pyspark.sql.connect.session import SparkSession

    from logdriven_dagster.engine.spark.connect.channels import CauseKeepingChannel
    from logdriven_dagster.engine.spark.connect.mode import patient

    # PySpark's functions choose the kind of column by it.
    os.environ["SPARK_CONNECT_MODE_ENABLED"] = "1"
    made: Any = SparkSession.builder.channelBuilder(CauseKeepingChannel(url)).getOrCreate()
    return patient(made)


def _warn_about_fixed_settings(session: "SparkSession", project: Project) -> None:
    """Warn about settings of the project that a running server no longer accepts."""
    client: Any = session.client
    wanted = resolve_settings(project)
    found = client.get_config_with_defaults(*((name, None) for name in wanted))
    other = [name for name, value in zip(wanted, found, strict=True) if value != wanted[name]]
    if kept := [name for name in other if not session.conf.isModifiable(name)]:
        _log.warning(
            "the Spark server keeps its own %s, which are set at its start", ", ".join(kept)
        )
