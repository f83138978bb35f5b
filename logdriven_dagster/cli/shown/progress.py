"""Progress of a run: a bar on a terminal, otherwise a line per window."""

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Literal, TypeAlias

from logdriven_dagster.cli.shown import rendering
from logdriven_dagster.cli.shown.old_windows import print_old_windows, print_outdated_windows
from logdriven_dagster.cli.shown.results import RunSummary, Tally, WindowResult, build_window_result
from logdriven_dagster.errors import in_brief
from logdriven_dagster.execution.definitions.old_windows import OldWindows
from logdriven_dagster.execution.events import NeedUnmet, WindowEvent, WindowStarted
from logdriven_dagster.execution.listeners.log_lines import lines_to
from logdriven_dagster.execution.source_files.changes import OutdatedWindows
from logdriven_dagster.planning.plan import PlannedWindow, State
from logdriven_dagster.planning.unread import MadeWithout

if TYPE_CHECKING:
    from rich.text import Text

Output: TypeAlias = Literal["text", "json", "log"]
"""Text for users, one JSON document at the end, or a JSON line for each ended attempt."""

Show: TypeAlias = Callable[[WindowEvent], None]


@contextmanager
def display(output: Output, total: Callable[[], int]) -> Iterator[Show]:
    """Show a bar over `total()` windows on a terminal, else a line per window, or only JSON."""
    if output == "json":
        with rendering.redirect_output():
            yield lambda _: None
    elif output == "log":
        with rendering.redirect_output() as stream, lines_to(stream):
            yield print_unmet
    elif sys.stdout.isatty():
        with _show_bar(total()) as show:
            yield show
    else:
        yield show_line


@contextmanager
def _show_bar(total: int) -> Iterator[Show]:
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
    from rich.progress import TimeElapsedColumn as Elapsed

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), Elapsed())
    with Progress(*columns, console=rendering.make_console(), transient=True) as bars:
        task = bars.add_task("planning", total=total)

        def show(event: WindowEvent) -> None:
            if isinstance(event, WindowStarted):
                bars.update(task, description=f"{event.attempt.table} {event.attempt.window}")
                return
            if isinstance(event, NeedUnmet):
                bars.console.print(_format_unmet(event))
            result = build_window_result(event)
            if result is None or result.status == "SKIPPED":
                return
            bars.advance(task)
            if result.status != "SUCCESS":
                bars.console.print(_format_line(result))

        yield show


def print_unmet(event: object) -> None:
    """Print on standard error the unmet need that prevented some tables from starting."""
    if isinstance(event, NeedUnmet):
        rendering.print_error(_format_unmet(event).plain)


def show_line(event: WindowEvent) -> None:
    """Print one line for a window that has ended, or for an unmet need."""
    if isinstance(event, NeedUnmet):
        rendering.print_line(_format_unmet(event))
    result = build_window_result(event)
    # There may be thousands of skipped windows; the summary counts them.
    if result and result.status != "SKIPPED":
        rendering.print_line(_format_line(result))
        sys.stdout.flush()


def _format_line(result: WindowResult) -> "Text":
    from rich.text import Text

    window = result.window
    line = Text.assemble(rendering.format_state(result.status), f"  {result.table} {window}")
    if result.status == "SUCCESS":
        read, written = map(rendering.format_number, (result.rows_read, result.rows_written))
        merged = rendering.format_merged(result.rows_inserted, result.rows_updated)
        time = rendering.format_seconds(result.seconds)
        line.append(f"  {read} read, {written} written{merged}, {time}", "dim")
        if result.rows_rejected:
            rejected = rendering.format_number(result.rows_rejected)
            rules = ", ".join(result.rejected_by)
            line.append(f", {rejected} rejected" + (f" by {rules}" if rules else ""), "yellow")
        if result.rows_malformed:
            line.append(f", {rendering.format_number(result.rows_malformed)} malformed", "yellow")
        if result.rows_of_no_window:
            number = rendering.format_number(result.rows_of_no_window)
            line.append(f", {number} rows of its sources do not belong to any window", "yellow")
        return line.append(f"; ran {result.definition}" if result.definition else "")
    step = f"step {result.step}: " if result.step else ""
    ran = f"ran {result.definition}; " if result.definition else ""
    stands = "; only the refresh failed: the table is unchanged" if result.stands else ""
    reason = in_brief(result.reason or "")
    return line.append_text(rendering.format_plain(f"  {ran}{step}{reason}{stands}"))


_NAMED = 5
"""The maximum number of tables that a line names."""

_BLOCKED = 10
"""The maximum number of blocked tables that are listed, with a line for each."""


def _format_unmet(event: NeedUnmet) -> "Text":
    from rich.text import Text

    more = len(event.tables) - _NAMED
    names = ", ".join(event.tables[:_NAMED]) + (f" and {more} more" if more > 0 else "")
    line = Text.assemble(rendering.format_state("FAILURE"), "  ")
    return line.append_text(rendering.format_plain(f"{event.reason}; not started: {names}"))


def report(
    tally: Tally,
    output: Output,
    left: Sequence[PlannedWindow] = (),
    without: Sequence[MadeWithout] = (),
    *,
    old: Mapping[str, OldWindows] = MappingProxyType({}),
    outdated: Mapping[str, OutdatedWindows] = MappingProxyType({}),
) -> None:
    """Print the results per table and in sum; interrupted windows go to stderr.

    `left` holds the first window of each table that is still pending. If nothing was done, all of
    them are shown, otherwise the blocked ones. `without` holds the finished windows that ran before
    a new upstream, for JSON. `old` holds the windows that older versions of the tables made, and
    `outdated` those whose source files changed after they ran.
    """
    summary = tally.summarize()
    if output == "json":
        windows = [_convert_left(planned) for planned in left]
        notes = {"left": windows, "made_without": [made.as_json() for made in without]}
        notes["old_windows"] = [{"table": name, **each.as_json()} for name, each in old.items()]
        changed = {name: each.as_json() for name, each in outdated.items()}
        notes["source_changes"] = [
            {"table": name, **item} for name, items in changed.items() for item in items
        ]
        rendering.print_json(summary.as_json() | notes)
    elif output == "text" and summary.results:
        _print_summary(summary)
        failed = (result.table for result in summary.results if result.status == "FAILURE")
        rendering.point_to_errors(failed)
        rejected = (result.table for result in summary.results if result.rows_rejected)
        rendering.point_to_rejected_rows(rejected)
    elif output == "text" and not (tally.running or tally.unmet):
        rendering.print_line("Nothing to do now:" if left else "Nothing to do.")
    if output == "text":
        (_print_pending if tally.is_idle else _print_blocked)(left)
        print_old_windows(old.values())
        print_outdated_windows(outdated.values())
    if tally.running:
        attempts = tally.running.values()
        stopped = [f"{attempt.table} {attempt.window}" for attempt in attempts]
        verb, pronoun = ("is", "it") if len(stopped) == 1 else ("are", "them")
        message = f"interrupted; {', '.join(stopped)} {verb} logged as DISCARDED"
        next_one = f"the next run starts with {pronoun}"
        if all(attempt.was_finished for attempt in attempts):
            next_one = "the table is unchanged, unless publication had begun"
        rendering.print_error(f"{message}, {next_one}")


def _print_pending(windows: Sequence[PlannedWindow]) -> None:
    for planned in windows:
        state = planned.reason if planned.state is not State.READY else "ready by now"
        rendering.print_line(f"  {planned.table} {planned.window} {state}")


def _print_blocked(left: Sequence[PlannedWindow]) -> None:
    """Print the tables whose first pending window is blocked or runs elsewhere, with reasons."""
    blocked = [planned for planned in left if planned.state in (State.BLOCKED, State.RUNNING)]
    if not blocked:
        return
    rendering.print_line("Blocked:")
    _print_pending(blocked[:_BLOCKED])
    if (more := len(blocked) - _BLOCKED) > 0:
        tables = "table" if more == 1 else "tables"
        rendering.print_line(f"  and {more} more {tables}; `logdriven plan` shows all of them")


def _convert_left(planned: PlannedWindow) -> dict[str, object]:
    start, end = planned.window.bounds
    fields = {"state": planned.state.value, "reason": planned.reason}
    return {"table": planned.table, "data_range_start": start, "data_range_end": end, **fields}


def _print_summary(summary: RunSummary) -> None:
    """Print a row per table, and one for all; a column that is empty for all is left out."""
    columns = [column for column in _COLUMNS if column.is_permanent or column.find_number(summary)]
    grid = rendering.make_table("table", *(column.title for column in columns), "#time")
    parts = summary.group_by_table()
    for name, part in parts.items():
        grid.add_row(name, *_format_cells(columns, part))
    if len(parts) > 1:
        grid.add_section()
        grid.add_row(f"{len(parts)} tables", *_format_cells(columns, summary), style="bold")
    rendering.make_console().print(grid)


@dataclass(frozen=True, slots=True)
class _Column:
    """A column of numbers in the summary."""

    title: str
    find_number: Callable[[RunSummary], int | None]
    status: str = ""
    """The status whose colour it has; a zero is a dash."""
    is_permanent: bool = True


_COLUMNS = (
    _Column("#done", lambda part: part.count("SUCCESS"), "SUCCESS"),
    _Column("#failed", lambda part: part.failed, "FAILURE"),
    _Column("#skipped", lambda part: part.count("SKIPPED"), "SKIPPED", is_permanent=False),
    _Column("#refused", lambda part: part.count("REFUSED"), "REFUSED", is_permanent=False),
    _Column("#rows read", lambda part: part.rows_read),
    _Column("#rows written", lambda part: part.rows_written),
    _Column("#rows rejected", lambda part: part.rows_rejected, is_permanent=False),
)


def _format_cells(columns: Sequence[_Column], part: RunSummary) -> "list[str | Text]":
    cells: list[str | Text] = []
    for column in columns:
        number = column.find_number(part)
        if column.status:
            text = rendering.format_number(number)
            cells.append(rendering.format_state(column.status, text) if number else "–")
        else:
            cells.append(rendering.format_number(number))
    return [*cells, rendering.format_seconds(part.seconds)]
