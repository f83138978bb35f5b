"""Output of the effects of edited files, as text and as Markdown."""

from collections.abc import Iterator, Sequence

from logdriven_dagster.cli.shown.rendering import format_plain, print_line
from logdriven_dagster.config.changes.fields import Effect
from logdriven_dagster.config.changes.readers import Reader
from logdriven_dagster.execution.definitions.change_report import Recomputation, ReportedChange
from logdriven_dagster.model.definitions import Operation

_STYLES = {
    Effect.COSMETIC: "dim",
    Effect.ADDITIVE: "green",
    Effect.VALUES: "yellow",
    Effect.GRAIN: "yellow",
    Effect.SHAPE: "red",
    Effect.GRID: "red",
    Effect.CONTRACT: "bold red",
}


def print_report(changes: Sequence[ReportedChange]) -> None:
    """Print each edited table with its class, its readers, and its windows."""
    if not changes:
        print_line("No file differs from its registered version.")
    for change in changes:
        line = format_plain(f"{change.name}  ", "bold")
        line.append_text(format_plain(_get_class(change), _STYLES[change.effect]))
        print_line(line)
        for text in _list_details(change):
            print_line(f"  {text}")


def print_markdown(changes: Sequence[ReportedChange]) -> None:
    """Print the changes as a table for a pull request."""
    if not changes:
        print_line("No file differs from its registered version.")
        return
    print_line("| table | class | change | windows | seen by |")
    print_line("| --- | --- | --- | --- | --- |")
    for change in changes:
        changed = "; ".join(each.what for each in change.changes)
        windows = "; ".join([*_list_windows(change), *_list_gone(change)])
        if change.remains is not None:
            windows = change.remains.text
        seen = ", ".join(map(_describe_reader, change.readers))
        cells = (change.name, _get_class(change), changed, windows, seen)
        print_line(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |")


def _get_class(change: ReportedChange) -> str:
    is_new = change.operation is Operation.ADD and not change.changes
    return "new" if is_new else change.effect.label


def _list_details(change: ReportedChange) -> Iterator[str]:
    for each in change.changes:
        place = f" (step {each.step})" if each.step else ""
        yield f"{each.effect.label}: {each.what}{place}"
    yield from _list_windows(change)
    if change.readers:
        yield f"seen by: {', '.join(map(_describe_reader, change.readers))}"
    yield from _list_gone(change)
    if change.remains is not None:
        yield change.remains.text


def _list_windows(change: ReportedChange) -> Iterator[str]:
    if change.old is None:
        return
    number = f"{change.restated:,} of them" if change.restated else "none of them"
    yield f"{change.old.description}; on_change restates {number}"
    if change.recomputation:
        parts = "; ".join(map(_describe_cost, change.recomputation))
        yield f"to run them all again: {parts}"


def _list_gone(change: ReportedChange) -> Iterator[str]:
    for reason in change.gone:
        yield f"cannot be recomputed: {reason}"


def _describe_cost(cost: Recomputation) -> str:
    noun = "window" if cost.windows == 1 else "windows"
    time = _describe_seconds(cost.seconds)
    return f"{cost.table} {cost.windows:,} {noun}, ≈ {cost.rows:,} rows, ≈ {time}"


def _describe_seconds(seconds: float) -> str:
    if seconds >= 7200:
        return f"{seconds / 3600:.1f} h"
    return f"{seconds / 60:.0f} min" if seconds >= 120 else f"{seconds:.0f} s"


def _describe_reader(reader: Reader) -> str:
    columns = "all rows" if reader.columns is None else ", ".join(reader.columns)
    through = f"; through {reader.through}" if reader.through else ""
    return f"{reader.table} ({columns}{through})"
