"""`ui`: the project in Dagster's web interface."""

import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from logdriven_dagster.cli.options import ProjectOption, open_project
from logdriven_dagster.errors import UsageError

if TYPE_CHECKING:
    from logdriven_dagster.config.project import Project

_HOME = ".logdriven/dagster"
"""Dagster's own storage, below the project folder, unless DAGSTER_HOME is set."""
_PATIENCE = 10
"""Seconds until Dagster must have ended by itself."""
_INSTANCE = "telemetry: {enabled: false}\nnux: {enabled: false}\n"
_WORKSPACE = """\
# Written by `logdriven ui`: the project as a code location with its name.
load_from:
  - python_module: {{module_name: logdriven_dagster.definitions, location_name: {name}}}
"""

HostOption = Annotated[
    str, typer.Option(help="The address to listen on; use 0.0.0.0 to accept other hosts.")
]
PortOption = Annotated[
    int | None, typer.Option(min=1, max=65535, help="The port; default: 3000, or a free port.")
]


def ui(
    project: ProjectOption = None, host: HostOption = "127.0.0.1", port: PortOption = None
) -> None:
    """Open the project in Dagster's web interface, with its daemon; Ctrl-C ends both."""
    loaded = open_project(project)
    _refuse_missing_server()
    port = _find_free_port(host, port)
    home = _find_home(loaded)
    workspace = loaded.root / _HOME / "workspace.yaml"
    workspace.parent.mkdir(parents=True, exist_ok=True)
    workspace.write_text(_WORKSPACE.format(name=loaded.name))
    where = ["--host", host, "--port", str(port)]
    # Dagster recommends a tool for projects with its own layout.
    quiet = "ignore:Function `dev_command` is superseded"
    dagster = [sys.executable, "-W", quiet, "-m", "dagster", "dev"]
    command = [*dagster, "--workspace", str(workspace), *where, "--log-level", "warning"]
    typer.echo(f"Starting Dagster for {loaded.name}; its storage is {home}.")
    # A shell's background processes ignore SIGINT, and Dagster then ignores SIGTERM: it would not
    # end.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    if loaded.spark_remote == "server":
        _start_spark(loaded)
    with subprocess.Popen(
        command,
        env=os.environ | {"DAGSTER_HOME": str(home), "LOGDRIVEN_PROJECT": str(loaded.root)},
    ) as process:
        signal.signal(signal.SIGTERM, lambda *_: process.terminate())
        if _wait_for_server(process, f"http://{_get_reachable_host(host)}:{port}"):
            typer.echo(
                f"{loaded.name} is at http://{_get_reachable_host(host)}:{port} (Ctrl-C ends it)"
            )
        code = _wait(process)
    raise typer.Exit(code)


def _start_spark(project: "Project") -> None:
    """Start the project's Spark server in the background, so that the first run finds it warm."""
    typer.echo("Starting Spark; `logdriven spark stop` ends it.")
    command = [sys.executable, "-m", "logdriven_dagster.cli", "spark", "start"]
    subprocess.Popen(
        [*command, "--project", str(project.root)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        start_new_session=True,
    )


def _refuse_missing_server() -> None:
    """Raise UsageError if Dagster's web server is not installed."""
    if find_spec("dagster_webserver") is None:
        raise UsageError(
            "Dagster's web server is not installed on this host; run `pip install "
            "'logdriven_dagster-core[ui]'`"
        )


def _find_home(project: "Project") -> Path:
    """Return the folder of Dagster's instance: DAGSTER_HOME, or the project's own."""
    if home := os.environ.get("DAGSTER_HOME"):
        return Path(home).resolve()
    own = project.root / _HOME
    own.mkdir(parents=True, exist_ok=True)
    if not (own / "dagster.yaml").exists():
        (own / "dagster.yaml").write_text(_INSTANCE)
    return own


def _find_free_port(host: str, wanted: int | None) -> int:
    """Return the requested port, otherwise 3000, otherwise any free one."""
    for port in (wanted,) if wanted else (3000, 0):
        with socket.socket() as tried:
            tried.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                tried.bind((host, port))
            except OSError:
                continue
            return int(tried.getsockname()[1])
    raise UsageError(f"port {wanted} on {host} is in use; choose another with --port")


def _get_reachable_host(host: str) -> str:
    return "127.0.0.1" if host in ("0.0.0.0", "::") else host  # noqa: S104 - compared, not bound


def _wait_for_server(process: subprocess.Popen[bytes], url: str) -> bool:
    """Wait until the web server answers; return False if it ended before."""
    while process.poll() is None:
        try:
            with urllib.request.urlopen(f"{url}/server_info", timeout=5):  # noqa: S310 - our own
                return True
        except (urllib.error.URLError, OSError):
            time.sleep(0.3)
    return False


def _wait(process: subprocess.Popen[bytes]) -> int:
    """Wait for Dagster and return its exit code.

    Ctrl-C in a terminal reaches Dagster by itself; another interrupt may not.
    """
    try:
        return process.wait()
    except KeyboardInterrupt:
        pass
    try:
        return process.wait(_PATIENCE)
    except subprocess.TimeoutExpired:
        process.send_signal(signal.SIGINT)
        return process.wait()
