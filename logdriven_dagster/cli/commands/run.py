"""`run` and `refresh`: running windows, showing progress, and printing a summary."""

import logging
import signal
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from datetime import datetime
from types import FrameType
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer

from logdriven_dagster.cli.commands.definitions import OperatorOption
from logdriven_dagster.cli.options import (
    BatchSizeOption,
    ExcludeOption,
    ExcludeStepsOption,
    FromStepOption,
    JsonOption,
    LogFormat,
    LogFormatOption,
    MaxParallelOption,
    NowOption,
    OnRunningOption,
    OverrideOption,
    ProjectOption,
    RetryVersionOption,
    TablesArgument,
    WindowOption,
    choose_output,
    find_window,
    open_to_run,
    parse_duration,
    parse_time,
    run_arguments,
)
from logdriven_dagster.errors import LogdrivenError

if TYPE_CHECKING:
    from collections.abc import Generator

    from logdriven_dagster.cli.shown.progress import Output
    from logdriven_dagster.config.models.jobs import StandardJob
    from logdriven_dagster.config.models.tables import CatchUp
    from logdriven_dagster.config.project import Project
    from logdriven_dagster.execution.arguments import RunArguments
    from logdriven_dagster.execution.definitions.old_windows import OldWindows
    from logdriven_dagster.execution.events import WindowEvent
    from logdriven_dagster.execution.runner import Runner
    from logdriven_dagster.execution.source_files.changes import OutdatedWindows
    from logdriven_dagster.model.windows import TimeWindow
    from logdriven_dagster.planning.plan import Plan, PlannedWindow
    from logdriven_dagster.planning.unread import MadeWithout


OnceOption = Annotated[
    bool, typer.Option("--once", help="Run only the oldest pending window of each table.")
]
LatestOnlyOption = Annotated[
    bool,
    typer.Option(
        "--latest-only", help="Run only the newest pending window; record the others as SKIPPED."
    ),
]
WindowsOption = Annotated[
    int | None, typer.Option(min=1, help="The maximum number of windows to run.")
]
FromOption = Annotated[
    str | None,
    typer.Option(
        "--from",
        metavar="START",
        help="The start of the first window: a time, a key, offsets or a window number.",
    ),
]
ToOption = Annotated[
    str | None,
    typer.Option("--to", metavar="END", help="The end of the last window; keys are inclusive."),
]
LastOption = Annotated[
    int | None, typer.Option("--last", min=1, help="Only this number of newest finished windows.")
]
WaitOption = Annotated[
    str | None,
    typer.Option(
        metavar="DURATION",
        help="The longest time to wait for windows that other runners process.",
    ),
]


class TerminatedError(KeyboardInterrupt):
    """SIGTERM, handled like Ctrl-C."""


def run(
    tables: TablesArgument = None,
    *,
    exclude: ExcludeOption = None,
    once: OnceOption = False,
    latest_only: LatestOnlyOption = False,
    max_windows: WindowsOption = None,
    max_parallel: MaxParallelOption = None,
    override: OverrideOption = None,
    from_step: FromStepOption = None,
    exclude_steps: ExcludeStepsOption = None,
    on_running: OnRunningOption = None,
    retry_version: RetryVersionOption = None,
    batch_size: BatchSizeOption = None,
    wait: WaitOption = None,
    project: ProjectOption = None,
    now: NowOption = None,
    as_json: JsonOption = False,
    log_format: LogFormatOption = LogFormat.TEXT,
) -> None:
    """Catch up: run all pending windows, oldest first, upstreams before downstreams."""
    from logdriven_dagster.cli.shown.old_windows import find_outdated_windows
    from logdriven_dagster.config.derived.selection import select_tables
    from logdriven_dagster.execution.catching_up.expected_work import expect_work
    from logdriven_dagster.execution.definitions.old_windows import find_old_windows

    output = choose_output(as_json, log_format)
    mode, patience = _choose_mode(once, latest_only), parse_duration(wait or "0 s", "--wait")
    arguments = run_arguments(
        override=override,
        from_step=from_step,
        exclude_steps=exclude_steps,
        on_running=on_running,
        retry_version=retry_version,
        batch_size=batch_size,
    )
    runner, clock = open_to_run("run", project, now)
    names = select_tables(runner.project, tables or [], exclude or [])
    _refuse_unknown_steps(runner, names, arguments)
    job = _find_only_job(runner.project, tables)
    view, limit = (job.job, max_windows or job.max_windows) if job else (None, max_windows)

    def plan() -> "Plan":
        return runner.plan(clock, names, mode, job=view)

    events = runner.catch_up(
        clock,
        names,
        max_windows=limit,
        mode=mode,
        arguments=arguments,
        job=view,
        max_parallel=max_parallel or (job.max_parallel if job else None),
        wait=patience,
    )
    if now is None:
        events = _notify_freshness(runner, events)
    without = _report_made_without(runner, names, clock)
    first = plan()
    runner.expected = expect_work(runner.run_log, first)
    _report_single_windows(runner.project, first)
    _watch(
        events,
        lambda: _count_pending(plan(), limit),
        output,
        lambda: plan().firsts(),
        without,
        old=lambda: find_old_windows(runner.run_log, runner.project, names),
        outdated=lambda: find_outdated_windows(plan()),
    )


def _report_made_without(
    runner: "Runner", names: Iterable[str], now: datetime
) -> "Sequence[MadeWithout]":
    """Print on stderr which finished windows ran before a new upstream, and return them."""
    from logdriven_dagster.cli.shown.definitions import print_made_without
    from logdriven_dagster.execution.catching_up.made_without import find_made_without

    found = find_made_without(runner.run_log, runner.project, names, now)
    print_made_without(found, to=sys.stderr)
    return found


def _report_single_windows(project: "Project", plan: "Plan") -> None:
    """Print on stderr which tables run many windows one by one, with the reason."""
    from logdriven_dagster.cli.shown.definitions import print_single_windows
    from logdriven_dagster.config.sql.stretching import find_single_windows

    pending = {name: table.pending for name, table in plan.tables.items()}
    print_single_windows(find_single_windows(project, pending), to=sys.stderr)


def _notify_freshness(
    runner: "Runner", events: "Generator[WindowEvent]"
) -> "Generator[WindowEvent]":
    """Yield the events of a catch-up, then notify about tables that are late or fresh again."""
    with runner.outbox.gather():
        yield from events
        runner.watch_freshness(datetime.now(runner.project.zone))


def _refuse_unknown_steps(
    runner: "Runner", names: Iterable[str], arguments: "RunArguments"
) -> None:
    from logdriven_dagster.execution.arguments import chosen_steps

    for name in names:
        chosen_steps(runner.project.table(name), arguments)


def _count_pending(plan: "Plan", limit: int | None) -> int:
    """Return the number of windows to expect."""
    pending = sum(table.pending for table in plan.tables.values())
    return min(pending, limit or pending)


def _choose_mode(once: bool, latest_only: bool) -> "CatchUp | None":
    if once and latest_only:
        raise typer.BadParameter("--once and --latest-only exclude each other")
    return "once" if once else "latest_only" if latest_only else None


def _find_only_job(project: "Project", names: list[str] | None) -> "StandardJob | None":
    """Return the job if it is the only name: its relations and its own limit apply."""
    from logdriven_dagster.config.models.jobs import StandardJob

    only = names[0].removeprefix("job:") if names and len(names) == 1 else ""
    job = project.jobs.get(only)
    return job if isinstance(job, StandardJob) else None


def refresh(
    table: Annotated[str, typer.Argument(help="The table.")],
    *,
    start: FromOption = None,
    end: ToOption = None,
    window: WindowOption = None,
    last: LastOption = None,
    override: OverrideOption = None,
    from_step: FromStepOption = None,
    exclude_steps: ExcludeStepsOption = None,
    on_running: OnRunningOption = None,
    retry_version: RetryVersionOption = None,
    batch_size: BatchSizeOption = None,
    project: ProjectOption = None,
    now: NowOption = None,
    as_json: JsonOption = False,
    log_format: LogFormatOption = LogFormat.TEXT,
) -> None:
    """Rerun the windows of a range, finished or not, oldest first.

    Give --from and --to, --window or --last.
    """
    output = choose_output(as_json, log_format)
    arguments = run_arguments(
        override=override,
        from_step=from_step,
        exclude_steps=exclude_steps,
        on_running=on_running,
        retry_version=retry_version,
        batch_size=batch_size,
    )
    runner, clock = open_to_run("refresh", project, now, again=[table])
    _refuse_unknown_steps(runner, [table], arguments)
    windows = _find_windows_to_refresh(runner, table, (start, end), window, last)
    events = runner.refresh_windows(table, windows, clock, arguments)
    _watch(events, lambda: len(windows), output)


FirstWindowOption = Annotated[
    str, typer.Option("--window", metavar="START", help="The start of the first window.")
]
LastWindowOption = Annotated[
    str | None,
    typer.Option("--to", metavar="END", help="The end of the last window; default: one window."),
]
ReasonOption = Annotated[
    str, typer.Option("--reason", help="The reason, which is recorded and shown with the window.")
]


def skip(
    table: Annotated[str, typer.Argument(help="The table.")],
    *,
    window: FirstWindowOption,
    end: LastWindowOption = None,
    reason: ReasonOption,
    operator: OperatorOption = None,
    project: ProjectOption = None,
    now: NowOption = None,
) -> None:
    """Skip windows permanently; downstream tables continue with the existing rows."""
    runner, clock = open_to_run("skip", project, now)
    windows = _find_windows_to_skip(runner, table, window, end)
    runner.skip(table, windows, clock, reason, _get_operator(operator))
    _print_each("SKIPPED", table, windows)


def unskip(
    table: Annotated[str, typer.Argument(help="The table.")],
    *,
    window: FirstWindowOption,
    end: LastWindowOption = None,
    reason: ReasonOption = "no reason given",
    operator: OperatorOption = None,
    project: ProjectOption = None,
    now: NowOption = None,
) -> None:
    """Make skipped windows pending again."""
    runner, clock = open_to_run("unskip", project, now)
    windows = _find_windows_to_skip(runner, table, window, end)
    runner.unskip(table, windows, clock, reason, _get_operator(operator))
    _print_each("PENDING", table, windows)


def _get_operator(given: str | None) -> str:
    from logdriven_dagster.execution.definitions.registering import author

    return author("", given).operator


def _print_each(what: str, table: str, windows: "Sequence[TimeWindow]") -> None:
    from logdriven_dagster.cli.shown.rendering import print_line

    for window in windows:
        print_line(f"{what}  {table} {window}")


def _find_windows_to_skip(
    runner: "Runner", table: str, start: str, end: str | None
) -> "Sequence[TimeWindow]":
    """Return the window that starts at `start`, or those from there to `end`."""
    from logdriven_dagster.execution.catching_up.skipping import (
        find_skippable_table,
        find_windows_to_skip,
    )

    project = runner.project
    find_skippable_table(project, table)
    if end is None:
        first, last = parse_time(project, start, "--window"), None
    else:
        first, last = _parse_span(project, start, end, "--window")
    return find_windows_to_skip(project, runner.run_log, table, first, last)


def _find_windows_to_refresh(
    runner: "Runner",
    table: str,
    span: tuple[str | None, str | None],
    window: str | None,
    last: int | None,
) -> "Sequence[TimeWindow]":
    """Return the windows that the options name. BadParameter unless one form of them is given."""
    from logdriven_dagster.execution.catching_up.refreshing import find_last_windows

    (start, end), config = span, runner.project.table(table)
    if sum(given is not None for given in (start or end, window, last)) != 1:
        problem = "give one of: --from with --to, --window, --last"
        raise typer.BadParameter(problem, param_hint="--from")
    if last is not None:
        return find_last_windows(runner.run_log, config, last)
    if window is not None:
        found = find_window(runner, table, window)
        return [found] if config.is_sliced else runner.windows(table, found)
    if start is None or end is None:
        raise typer.BadParameter("needs --from and --to", param_hint="--to" if start else "--from")
    find = _find_slices if config.is_sliced else _find_windows
    return find(runner, table, start, end)


def _find_windows(runner: "Runner", table: str, start: str, end: str) -> "Sequence[TimeWindow]":
    from logdriven_dagster.model.windows import TimeWindow

    return runner.windows(table, TimeWindow(*_parse_span(runner.project, start, end, "--from")))


def _parse_span(
    project: "Project", start: str, end: str, option: str
) -> "tuple[datetime, datetime]":
    """Parse two times; BadParameter if the second one is not later."""
    first, last = parse_time(project, start, option), parse_time(project, end, "--to")
    if first.timestamp() >= last.timestamp():
        raise typer.BadParameter(f"must be later than {option}", param_hint="--to")
    return first, last


def _find_slices(runner: "Runner", table: str, start: str, end: str) -> "Sequence[TimeWindow]":
    from logdriven_dagster.planning.slices import find_slices_within

    known = runner.slices(table)
    try:
        found = find_slices_within(runner.project.table(table), known, start, end)
    except ValueError:
        what = "a key, offsets as JSON, or the number of a window"
        raise typer.BadParameter(f"expected {what}", param_hint="--from, --to") from None
    if not found:
        hint = (
            f"{table} has loaded up to {known[-1].low} and nothing of that range; give "
            "a range that it has loaded"
        )
        raise typer.BadParameter(hint, param_hint="--from, --to")
    return found


def _watch(
    events: "Generator[WindowEvent]",
    total: Callable[[], int],
    output: "Output",
    left: "Callable[[], Sequence[PlannedWindow]]" = tuple,
    without: "Sequence[MadeWithout]" = (),
    *,
    old: "Callable[[], Mapping[str, OldWindows]]" = dict,
    outdated: "Callable[[], Mapping[str, OutdatedWindows]]" = dict,
) -> NoReturn:
    """Run the windows and report them; exit with 1 if one failed, 130 or 143 if interrupted."""
    from logdriven_dagster.cli.shown.progress import display, report
    from logdriven_dagster.cli.shown.results import Tally

    tally = Tally()
    try:
        with handle_termination(), display(output, total) as show, closing(events):
            for event in events:
                tally.add(event)
                show(event)
    except TerminatedError:
        report(tally, output, (), without)
        raise typer.Exit(143) from None
    except KeyboardInterrupt:
        report(tally, output, (), without)
        raise typer.Exit(130) from None
    except LogdrivenError:
        if tally.results:
            report(tally, output, (), without)
        raise
    report(tally, output, left(), without, old=old(), outdated=outdated())
    raise typer.Exit(tally.summarize().exit_code)


@contextmanager
def handle_termination() -> Iterator[None]:
    """Let SIGTERM interrupt the running window, which is then logged as DISCARDED.

    A second SIGTERM raises again, because Python ignores exceptions inside a finalizer.
    """

    def terminate(_number: int, _frame: FrameType | None) -> NoReturn:
        raise TerminatedError

    before = signal.signal(signal.SIGTERM, terminate)
    logging.getLogger().addFilter(_is_informative)
    try:
        yield
    finally:
        logging.getLogger().removeFilter(_is_informative)
        signal.signal(signal.SIGTERM, before)


def _is_informative(record: logging.LogRecord) -> bool:
    """Drop Py4J's traceback of an interruption, which our own message covers."""
    return not str(record.msg).startswith("KeyboardInterrupt while sending command")
