"""Options that several commands share, and parsers of their values."""

import re
import sys
from collections.abc import Collection, Iterable
from datetime import datetime, timedelta
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from logdriven_dagster.model.attempts import OnRunning

if TYPE_CHECKING:
    from logdriven_dagster.cli.shown.progress import Output
    from logdriven_dagster.config.models.tables import BatchSize
    from logdriven_dagster.config.project import Project
    from logdriven_dagster.execution.arguments import RunArguments
    from logdriven_dagster.execution.definitions.registering import Registered
    from logdriven_dagster.execution.runner import Runner
    from logdriven_dagster.model.windows import TimeWindow

_PROJECT_HELP = "The project folder; default: LOGDRIVEN_PROJECT, then the current folder."
_NOW_HELP = "The data clock, as ISO 8601 or yyyyMMddHHmmss; default zone: the project's time zone."


def _inherit_option(
    ctx: typer.Context, param: typer.CallbackParam, value: str | None
) -> str | None:
    """Return the option of the root command as a default.

    So `logdriven --project X plan` is the same as `logdriven plan --project X`.
    """
    given = ctx.find_root().params.get(param.name or "") if value is None else value
    return None if given is None else str(given)


GlobalProjectOption = Annotated[
    str | None, typer.Option("--project", "-p", envvar="LOGDRIVEN_PROJECT", help=_PROJECT_HELP)
]
GlobalNowOption = Annotated[str | None, typer.Option("--now", help=_NOW_HELP)]
ProjectOption = Annotated[
    str | None,
    typer.Option("--project", "-p", metavar="FOLDER", callback=_inherit_option, help=_PROJECT_HELP),
]
NowOption = Annotated[
    str | None, typer.Option("--now", metavar="TIME", callback=_inherit_option, help=_NOW_HELP)
]
WindowOption = Annotated[
    str | None,
    typer.Option(metavar="START", help="Only this window: its start time, key or number."),
]
RangeStartOption = Annotated[
    str | None,
    typer.Option("--from", metavar="START", help="The start of the range; default: all windows."),
]
RangeEndOption = Annotated[
    str | None, typer.Option("--to", metavar="END", help="The end of the range.")
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print only JSON to standard output.")]


class LogFormat(str, Enum):
    """The format of standard output during a run."""

    TEXT = "text"
    JSON = "json"


LogFormatOption = Annotated[
    LogFormat,
    typer.Option(
        "--log-format",
        help="json: print only one line of JSON for each ended attempt.",
    ),
]
TablesArgument = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="TABLES",
        help="Tables, jobs or selections such as ods.*, +dws.daily, ods.orders+, tag:finance; "
        "default: all tables.",
    ),
]
ExcludeOption = Annotated[
    list[str] | None,
    typer.Option(
        "--exclude", metavar="TABLES", help="Leave out these tables or selections; repeatable."
    ),
]
OverrideOption = Annotated[
    list[str] | None,
    typer.Option("--override", metavar="KEY=VALUE", help="Set a variable; may be repeated."),
]
FromStepOption = Annotated[
    str | None,
    typer.Option(
        "--from-step", metavar="STEP", help="Start with this step; leave out the steps before it."
    ),
]
OnRunningOption = Annotated[
    OnRunning | None,
    typer.Option(
        "--on-running",
        help="The action for windows that another runner processes; default: the table's.",
    ),
]
MaxParallelOption = Annotated[
    int | None,
    typer.Option(
        min=1, help="The number of windows to run at the same time; default: the project's."
    ),
]


class RetryVersionName(str, Enum):
    """The version of a table for retries of failed windows."""

    LATEST = "latest"
    RECORDED = "recorded"


RetryVersionOption = Annotated[
    RetryVersionName | None,
    typer.Option(
        "--retry-version",
        help="The version of a table for retries of failed windows: the latest, or the "
        "version of the failed attempt (recorded); default: the table's retry_version, "
        "otherwise the latest.",
    ),
]
BatchSizeOption = Annotated[
    str | None,
    typer.Option(
        "--batch-size",
        metavar="N",
        help="The number of adjoining windows to run as one batch, all or auto; default: the "
        "tables' batch_size.",
    ),
]
ExcludeStepsOption = Annotated[
    list[str] | None,
    typer.Option("--exclude-steps", metavar="A,B", help="Leave out this step; may be repeated."),
]


def choose_output(as_json: bool, log_format: LogFormat) -> "Output":
    """Return the format of standard output from `--json` and `--log-format`."""
    if as_json and log_format is LogFormat.JSON:
        raise typer.BadParameter("--json and --log-format json exclude each other")
    return "json" if as_json else "log" if log_format is LogFormat.JSON else "text"


def open_project(folder: str | None) -> "Project":
    """Load the project in a folder, by default the current one; raises InvalidProjectError."""
    from logdriven_dagster.config.loading import load_project

    return load_project(Path(folder or "."))


def open_in_force(folder: str | None) -> "Registered":
    """Load the project with the registry's definitions, without changing the registry."""
    from logdriven_dagster.execution.definitions.registering import consult

    return consult(Path(folder or "."))


def open_to_run(
    reason: str, folder: str | None, now: str | None, *, again: Collection[str] = ()
) -> "tuple[Runner, datetime]":
    """Apply the project's files to the registry; return a runner and the data clock.

    Prints on stderr which changed tables write in another way than their finished windows did.

    Args:
        reason: The reason to record with new versions.
        folder: The project folder; None for the current one.
        now: The data clock as text; None for the current time.
        again: Tables to rerun, which are compared even if they did not change.
    """
    from logdriven_dagster.cli.shown.definitions import find_changed_targets, print_changed_targets
    from logdriven_dagster.execution.definitions.registering import register
    from logdriven_dagster.execution.opening import open_runner
    from logdriven_dagster.model.definitions import Kind

    registered = register(Path(folder or "."), reason)
    changed = {change.name for change in registered.changes if change.kind is Kind.TABLE}
    print_changed_targets(find_changed_targets(registered, changed | set(again)), to=sys.stderr)
    clock = read_data_clock(registered.project, now)
    return open_runner(registered.project, run_log=registered.run_log), clock


def read_data_clock(project: "Project", text: str | None) -> datetime:
    """Return the time that `--now` names, by default the current time, in the project's zone."""
    if text is None:
        return datetime.now(project.zone)
    return parse_time(project, text, "--now")


def parse_time(project: "Project", text: str, option: str) -> datetime:
    """Parse a time in the project's zone; BadParameter with the option's name if it is invalid."""
    from logdriven_dagster.config.models.fields import read_instant

    try:
        return read_instant(text, project.zone)
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint=option) from None


def parse_range(
    project: "Project", table: str, start: str | None, end: str | None, now: datetime
) -> "TimeWindow | None":
    """Return the range of the options; an open end is that of the table's windows."""
    from logdriven_dagster.model.windows import TimeWindow

    if start is None and end is None:
        return None
    grid = project.table(table).grid
    first = grid.origin if start is None else parse_time(project, start, "--from")
    last = now if end is None else parse_time(project, end, "--to")
    if first.timestamp() >= last.timestamp():
        raise typer.BadParameter("must be later than --from", param_hint="--to")
    return TimeWindow(first, last, zone=project.zone)


def find_window(runner: "Runner", table: str, text: str) -> "TimeWindow":
    """Return the window that a text names, in the syntax of `refresh` and Dagster's partitions."""
    from logdriven_dagster.model.windows import normalize_instant

    config = runner.project.table(table)
    if config.is_sliced:
        return runner.slices(table, [text])[0]
    start, grid = parse_time(runner.project, text, "--window"), config.grid
    window = grid.window(grid.index(start))
    if window.start != normalize_instant(start):
        problem = (
            f"no window of {table} starts at this time; the window that contains it is {window}"
        )
        raise typer.BadParameter(problem, param_hint="--window")
    return window


def parse_duration(text: str, option: str) -> timedelta:
    """Parse a duration; BadParameter with the option's name if it is invalid."""
    from logdriven_dagster.config.models import fields

    try:
        return fields.parse_duration(text)
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint=option) from None


def parse_overrides(texts: Iterable[str] | None) -> dict[str, str]:
    """Parse `KEY=VALUE` texts into a dict; later keys win. Source: Sharp ETL, `--override`."""
    pairs: dict[str, str] = {}
    for text in texts or ():
        match = re.fullmatch(r"([A-Za-z_][A-Za-z0-9_]*)=(.*)", text, re.DOTALL)
        if not match:
            problem = f"expected KEY=VALUE, such as --override region=eu, not {text!r}"
            raise typer.BadParameter(problem, param_hint="--override")
        pairs[match[1]] = match[2]
    return pairs


def parse_names(texts: Iterable[str] | None) -> frozenset[str]:
    """Parse the comma-separated names of one or more options."""
    return frozenset(
        name.strip() for text in texts or () for name in text.split(",") if name.strip()
    )


def run_arguments(
    *,
    override: Iterable[str] | None,
    from_step: str | None,
    exclude_steps: Iterable[str] | None,
    on_running: OnRunning | None,
    retry_version: RetryVersionName | None,
    batch_size: str | None,
) -> "RunArguments":
    """Parse the options that `run` and `refresh` share into arguments for every window."""
    from logdriven_dagster.execution.arguments import RunArguments

    return RunArguments(
        parse_overrides(override),
        from_step,
        parse_names(exclude_steps),
        on_running,
        retry_version=None if retry_version is None else retry_version.value,
        batch_size=_batch_size(batch_size),
    )


def _batch_size(text: str | None) -> "BatchSize | None":
    """Parse a number of windows from 1, `all` or `auto`."""
    if text is None:
        return None
    if text == "all":
        return "all"
    if text == "auto":
        return "auto"
    if not text.isdigit() or int(text) < 1:
        problem = "must be auto, all or a number of at least 1"
        raise typer.BadParameter(problem, param_hint="--batch-size")
    return int(text)
