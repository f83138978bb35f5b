"""`report` and `metrics`: attempts and the state of tables, for users and for Prometheus."""

import signal
from datetime import datetime, timedelta
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from logdriven_dagster.cli.options import (
    NowOption,
    ProjectOption,
    data_clock,
    open_in_force,
    open_project,
    parse_time,
)
from logdriven_dagster.errors import UsageError

if TYPE_CHECKING:
    from logdriven_dagster.config import Project
    from logdriven_dagster.execution.reports.metrics import Metrics


class ReportFormat(str, Enum):
    """The formats of a report."""

    csv = "csv"
    html = "html"
    json = "json"


FromOption = Annotated[
    str | None,
    typer.Option("--from", metavar="TIME", help="The start; default: yesterday at midnight."),
]
ToOption = Annotated[
    str | None, typer.Option("--to", metavar="TIME", help="The end; default: one day after --from.")
]
FormatOption = Annotated[
    list[ReportFormat] | None,
    typer.Option("--format", help="The format; may be repeated; default: csv and html."),
]
OutputOption = Annotated[
    str | None,
    typer.Option("--output", metavar="FILE", help="The output file; - is standard output."),
]
JobOption = Annotated[
    list[str] | None,
    typer.Option("--job", metavar="NAME", help="Include only this job or table; may be repeated."),
]
SendOption = Annotated[
    list[str] | None,
    typer.Option(
        "--send", metavar="NAME", help="Send the report to these recipients, too; may be repeated."
    ),
]


def report(
    *,
    start: FromOption = None,
    end: ToOption = None,
    formats: FormatOption = None,
    output: OutputOption = None,
    job: JobOption = None,
    send: SendOption = None,
    project: ProjectOption = None,
    now: NowOption = None,
) -> None:
    """Report all attempts that started in a period, by default yesterday."""
    loaded = open_project(project)
    first, last = _span(loaded, start, end, now)
    single = _single(formats, output)

    from logdriven_dagster.cli.shown.control_characters import write_document
    from logdriven_dagster.cli.shown.rendering import print_line
    from logdriven_dagster.execution.definitions.homes import open_run_log
    from logdriven_dagster.execution.reports import data as reports

    run_log = open_run_log(loaded)
    found = reports.read_report(loaded, run_log, first, last, job or ())
    if output == "-":
        write_document(reports.rendered(found, single.value))
    elif output is not None:
        path = Path(output)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(reports.rendered(found, single.value), encoding="utf-8")
        print_line(f"wrote {path}")
    else:
        asked = {item.value for item in formats or ()} or reports.BY_DEFAULT
        for path in reports.write_files(found, [f for f in reports.FORMATS if f in asked]):
            print_line(f"wrote {path}")
    if send:
        reports.send_report(found, send)
        print_line(f"sent to {', '.join(send)}")


def _span(
    project: "Project", start: str | None, end: str | None, now: str | None
) -> tuple[datetime, datetime]:
    """Return the bounds of the report, by default whole days of the project's wall clock."""
    from logdriven_dagster.model.windows import on_clock

    if start is None and end is not None:
        raise typer.BadParameter("needs --from; give --from, too", param_hint="--to")
    if start is None:
        today = data_clock(project, now).replace(
            hour=0, minute=0, second=0, microsecond=0, tzinfo=None
        )
        return on_clock(today - timedelta(days=1), project.zone), on_clock(today, project.zone)
    first = parse_time(project, start, "--from")
    if end is None:
        return first, on_clock(first.replace(tzinfo=None) + timedelta(days=1), project.zone)
    last = parse_time(project, end, "--to")
    if first.timestamp() >= last.timestamp():
        raise typer.BadParameter("must be later than --from", param_hint="--to")
    return first, last


def _single(formats: list[ReportFormat] | None, output: str | None) -> ReportFormat:
    """Return the format of one file: the given one, or that of the file's suffix."""
    if formats and len(formats) > 1 and output is not None:
        raise typer.BadParameter("a file has one format; give one --format", param_hint="--output")
    if formats:
        return formats[0]
    suffix = Path(output or "").suffix.removeprefix(".")
    return ReportFormat(suffix) if suffix in set(ReportFormat) else ReportFormat.csv


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
) -> None:
    """Print the state of tables and jobs in Prometheus's text format, or serve it."""
    from logdriven_dagster.execution.opening import open_runner
    from logdriven_dagster.execution.reports.metrics import Metrics
    from logdriven_dagster.runlog.observed.activity import Today

    registered = open_in_force(project)
    runner = open_runner(registered.project, run_log=registered.run_log)
    found = Metrics(runner.run_log, runner.judged_project, Today())
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
