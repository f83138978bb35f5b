"""Rows of tables on a terminal: as a table, or as records if they are too wide."""

import math
from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from typing import TYPE_CHECKING, Any
from zoneinfo import ZoneInfo

from logdriven_dagster.cli.shown import rendering
from logdriven_dagster.engine.arrow.values import records, text_of, type_names
from logdriven_dagster.model.logs import WindowCount

if TYPE_CHECKING:
    import pyarrow as pa
    from rich.text import Text

_LONGEST = 60
"""Characters of a value in a table; a record shows the whole value."""
_BAR = 50
_EIGHTHS = " ▏▎▍▌▋▊▉"


def print_rows(read: "pa.Table", zone: ZoneInfo, limit: int) -> None:
    """Print at most `limit` rows, and a note if there are more."""
    found = list(records(read.slice(0, limit), zone))
    if not found:
        columns = ", ".join(read.column_names)
        rendering.print_line(f"No rows. Columns: {columns}")
        return
    grid = _grid(read, found)
    console = rendering.console()
    if grid.__rich_measure__(console, console.options.update(max_width=10_000)).minimum <= (
        console.width
    ):
        console.print(grid)
    else:
        _print_records(read, found)
    if len(read) > limit:
        rendering.print_line(f"There are more rows; show more with --limit {10 * limit}.")


def print_rows_as_json(read: "pa.Table", zone: ZoneInfo) -> None:
    """Print the rows as a JSON list, timestamps with their offsets, decimals as text."""
    rendering.print_json_list(_finite(row) for row in records(read, zone))


def _grid(read: "pa.Table", found: Sequence[Mapping[str, Any]]) -> Any:
    """Return a table whose heading has names and types."""
    import pyarrow as pa

    grid = rendering.table()
    for field, kind in zip(read.schema, type_names(read), strict=True):
        is_number = pa.types.is_integer(field.type) or pa.types.is_floating(field.type)
        heading = rendering.plain(field.name).append(f"\n{kind}", "dim not bold")
        grid.add_column(
            heading,
            justify="right" if is_number or pa.types.is_decimal(field.type) else "left",
            no_wrap=True,
        )
    for row in found:
        grid.add_row(*(_cell(value, _LONGEST) for value in row.values()))
    return grid


def _print_records(read: "pa.Table", found: Sequence[Mapping[str, Any]]) -> None:
    """Print each row as lines of name, type and value."""
    from rich.text import Text

    kinds = type_names(read)
    width, wide = (max(map(len, texts)) for texts in (read.column_names, kinds))
    for number, row in enumerate(found, 1):
        rendering.print_line(Text(f"row {number}", "bold"))
        for (name, value), kind in zip(row.items(), kinds, strict=True):
            line = Text("  ").append_text(rendering.plain(name.ljust(width)))
            line.append(f"  {kind.ljust(wide)}  ", "dim").append_text(_cell(value))
            rendering.print_line(line)


def _cell(value: Any, longest: int | None = None) -> "Text":
    text = text_of(value)
    if longest is not None and len(text) > longest:
        text = text[: longest - 1] + "…"
    return rendering.plain(text, "dim" if value is None else "")


def _finite(value: Any) -> Any:
    """Return the value with text for the numbers that JSON lacks."""
    match value:
        case Mapping():
            return {key: _finite(each) for key, each in value.items()}
        case list():
            return [_finite(each) for each in value]
        case float() if not math.isfinite(value):
            return str(Decimal(value))
        case _:
            return value


def print_counts(table: str, found: Iterable[WindowCount], *, as_json: bool) -> None:
    """Print a bar for the rows of each window; missing and failed windows have none."""
    counts = list(found)
    if as_json:
        rendering.print_json_list(_count_json(table, count) for count in counts)
        return
    if not counts:
        rendering.print_line("No windows yet.")
        return
    from rich.text import Text

    most = max((count.rows or 0 for count in counts), default=0)
    grid = rendering.table("window", "status", "#rows", "")
    for count in counts:
        word = "missing" if count.status is None else count.status.value
        written = count.rows if word == "SUCCESS" else None
        grid.add_row(
            str(count.window),
            rendering.state(word),
            rendering.number(written),
            Text(_bar(written, most), "green"),
        )
    rendering.console().print(grid)


def _count_json(table: str, count: WindowCount) -> Mapping[str, Any]:
    start, end = count.window.bounds
    status = None if count.status is None else count.status.value
    window = {"data_range_start": start, "data_range_end": end}
    return {"table": table, **window, "status": status, "rows": count.rows}


def _bar(rows: int | None, most: int) -> str:
    """Return a bar of up to 50 characters, with at least one mark for a non-zero count."""
    if not rows:
        return ""
    whole, rest = divmod(max(round(8 * _BAR * rows / most), 1), 8)
    return "█" * whole + _EIGHTHS[rest].strip()
