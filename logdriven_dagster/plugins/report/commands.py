"""`report`: the attempts of a period as files, on standard output or for recipients."""

from datetime import datetime, timedelta
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from logdriven_dagster.cli.installed import show_in_panel
from logdriven_dagster.cli.options import (
    NowOption,
    ProjectOption,
    open_project,
    parse_time,
    read_data_clock,
)

if TYPE_CHECKING:
    from logdriven_dagster.config.project import Project


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


@show_in_panel("Monitoring")
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
    from logdriven_dagster.plugins.report import data as reports

    run_log = open_run_log(loaded)
    found = reports.read_report(loaded, run_log, first, last, job or ())
    if output == "-":
        write_document(reports.render(found, single.value))
    elif output is not None:
        path = Path(output)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(reports.render(found, single.value), encoding="utf-8")
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
        today = read_data_clock(project, now).replace(
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
