"""`metrics`: the state of tables and jobs for Prometheus."""

import signal
from typing import TYPE_CHECKING, Annotated, Any

import typer

from logdriven_dagster.cli.options import NowOption, ProjectOption, open_in_force, parse_time
from logdriven_dagster.errors import UsageError

if TYPE_CHECKING:
    from logdriven_dagster.execution.metrics import Metrics


ServeOption = Annotated[
    bool,
    typer.Option(
        "--serve", help="Serve the metrics over HTTP until Ctrl-C instead of printing them."
    ),
]
HostOption = Annotated[
    str, typer.Option(help="The address to listen on; use 0.0.0.0 to accept other hosts.")
]
PortOption = Annotated[
    int, typer.Option(min=0, max=65535, help="The port to listen on; 0 takes a free port.")
]


def metrics(
    *,
    serve: ServeOption = False,
    host: HostOption = "127.0.0.1",
    port: PortOption = 9464,
    project: ProjectOption = None,
    now: NowOption = None,
) -> None:
    """Print the state of tables and jobs in Prometheus's text format, or serve it."""
    from logdriven_dagster.execution.metrics import Metrics
    from logdriven_dagster.execution.opening import open_runner
    from logdriven_dagster.runlog.observed.activity import Today

    registered = open_in_force(project)
    runner = open_runner(registered.project, run_log=registered.run_log)
    clock = None if now is None else parse_time(registered.project, now, "--now")
    found = Metrics(runner.run_log, runner.load_judged_project, Today(), clock)
    if serve:
        _serve(found, host, port)
    else:
        typer.echo(found.text(), nl=False)


def _serve(found: "Metrics", host: str, port: int) -> None:
    """Answer each scrape from the current run log, until Ctrl-C or SIGTERM."""
    from prometheus_client import CONTENT_TYPE_LATEST, start_http_server

    def answer(_environ: Any, start_response: Any) -> list[bytes]:
        text = found.text().encode()
        start_response("200 OK", [("Content-Type", CONTENT_TYPE_LATEST)])
        return [text]

    try:
        server, thread = start_http_server(port, host, found.registry)
    except OSError as error:
        fix = "choose another address with --host and --port"
        raise UsageError(f"cannot listen on {host}:{port}: {error.strerror}; {fix}") from None
    server.set_app(answer)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    typer.echo(f"http://{host}:{server.server_port}/metrics (Ctrl-C ends it)")
    try:
        thread.join()
    except KeyboardInterrupt:
        server.shutdown()
        server.server_close()
