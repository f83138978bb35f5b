"""`spark start`, `stop` and `status`: a warm server for all runs; `warm`: a fast start of Spark."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from logdriven_dagster.cli.former_options import Command
from logdriven_dagster.cli.options import JsonOption, ProjectOption, open_project

if TYPE_CHECKING:
    from collections.abc import Callable

    from logdriven_dagster.config.project import Project
    from logdriven_dagster.engine.spark.server.state import Server

app = typer.Typer(
    no_args_is_help=True,
    help="Manage a warm Spark server for all runs, or prepare a faster start of Spark.",
)

ForceOption = Annotated[
    bool, typer.Option("--force", help="Do not wait for the Spark jobs of other runs. They fail.")
]

CopyOption = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE", help="Write a copy to this file, for the settings of other Spark JVMs."
    ),
]

_MEGABYTE = 1_000_000


@app.command(cls=Command)
def start(force: ForceOption = False, project: ProjectOption = None) -> None:
    """Start the project's Spark server and wait until it is ready; a running one stays.

    A server whose settings have changed is restarted.
    """
    loaded = open_project(project)

    from logdriven_dagster.engine.spark.server import lifecycle as connect_server

    started = connect_server.start(loaded, _make_waiter(force))
    place = f"the Spark server of {loaded.name} at {_place(started.server)}"
    if not started.seconds:
        typer.echo(f"{place} is already running")
        return
    done = "was restarted, because its settings have changed" if started.replaced else "started"
    typer.echo(f"{place} {done}; it was ready after {started.seconds:.0f} s")
    if loaded.config.spark.remote == "classic":
        typer.echo("runs use it with `spark: {remote: auto}` or LOGDRIVEN_SPARK_REMOTE=auto")


@app.command(cls=Command)
def stop(force: ForceOption = False, project: ProjectOption = None) -> None:
    """Stop the project's Spark server as soon as no run uses it."""
    loaded = open_project(project)

    from logdriven_dagster.engine.spark.server import lifecycle as connect_server

    server = connect_server.stop(loaded, _make_waiter(force))
    server_name = f"the Spark server of {loaded.name}"
    typer.echo(f"{server_name} has stopped" if server else f"{server_name} is not running")


@app.command()
def status(project: ProjectOption = None, as_json: JsonOption = False) -> None:
    """Show the archive of Spark's classes, and whether the project's Spark server runs.

    Exits with 1 if the server does not run.
    """
    loaded = open_project(project)
    found = _read_status(loaded) | {"archive": _read_archive(loaded)}
    if found["archive"] and not as_json:
        typer.echo(f"the archive of Spark's classes: {_describe_archive(found['archive'])}")
    if as_json:
        import json

        typer.echo(json.dumps(found))
    elif not found["running"]:
        typer.echo(f"the Spark server of {loaded.name} is not running")
    else:
        typer.echo(
            f"the Spark server of {loaded.name} runs at {found['url']}: process "
            f"{found['pid']}, {found['megabytes']} MB, {found['jobs']} active jobs"
        )
        if found["current"] is None:
            typer.echo(
                "cannot compare its settings with the project's: some are not set in this "
                "environment"
            )
        elif not found["current"]:
            typer.echo("its settings have changed; run `logdriven spark start` to restart it")
    raise typer.Exit(0 if found["running"] else 1)


@app.command()
def warm(copy: CopyOption = None, project: ProjectOption = None) -> None:
    """Create an archive of Spark's classes, with which every run of this user starts faster."""
    loaded = open_project(project)

    from logdriven_dagster.engine.spark.classic.archives import training

    trained = training.train(
        loaded,
        lambda: typer.echo("waiting for another training, such as one in the background", err=True),
    )
    if copy is not None:
        training.copy_archive(trained.file, copy)
    size = trained.file.stat().st_size // _MEGABYTE
    made = f"was made in {trained.seconds:.0f} s" if trained.seconds else "already exists"
    typer.echo(f"the archive of Spark's classes {made}: {trained.file}, {size} MB")


def _read_status(project: "Project") -> dict[str, Any]:
    from logdriven_dagster.engine.spark.server import lifecycle as connect_server
    from logdriven_dagster.engine.spark.server import state as server_state

    server = server_state.running(project)
    process = server.process if server else None
    if server is None or process is None or not server.listens():
        return {"running": False}
    return {
        "running": True,
        "url": _place(server),
        "pid": server.pid,
        "started": server.started // 1000,
        "megabytes": process.memory_info().rss // _MEGABYTE,
        "jobs": connect_server.jobs_running(server),
        "current": _is_current(project, server),
    }


def _read_archive(project: "Project") -> dict[str, Any] | None:
    """Return the archive of the project's Spark; None if it cannot have one."""
    from logdriven_dagster.engine.spark.classic.archives.training import find_archive
    from logdriven_dagster.errors import UsageError

    try:
        archive = find_archive(project)
    except UsageError:
        return None
    if archive is None:
        return None
    usable = archive.can_be_used()
    return {
        "file": str(archive.file),
        "usable": usable,
        "megabytes": archive.file.stat().st_size // _MEGABYTE if usable else 0,
        "log": str(archive.log) if archive.log.exists() else None,
    }


def _describe_archive(archive: dict[str, Any]) -> str:
    if archive["usable"]:
        return f"{archive['file']}, {archive['megabytes']} MB"
    if archive["log"]:
        return f"being made, or could not be made; output in {archive['log']}"
    return "not made yet; run `logdriven spark warm`"


def _is_current(project: "Project", server: "Server") -> bool | None:
    """Return True if the server has the project's settings; None if some are missing here."""
    from logdriven_dagster.engine.spark.server import lifecycle as connect_server
    from logdriven_dagster.errors import UsageError

    try:
        return server.settings == connect_server.settings_digest(project)
    except UsageError:
        return None


def _place(server: "Server") -> str:
    """Return the address of a Spark server, without the token."""
    return f"sc://localhost:{server.port}"


def _make_waiter(force: bool) -> "Callable[[Server], None]":
    from logdriven_dagster.engine.spark.server import lifecycle as connect_server

    def wait(server: "Server") -> None:
        if not force:
            connect_server.wait_until_idle(
                server,
                lambda jobs: typer.echo(
                    f"waiting for {jobs} Spark jobs; use --force to end them", err=True
                ),
            )

    return wait
