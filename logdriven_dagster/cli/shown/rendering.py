"""Basic output of the command line: consoles, tables, colours and JSON, with secrets redacted."""

import json
import os
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from datetime import date, datetime
from typing import IO, TYPE_CHECKING

from logdriven_dagster.config.secrets import redact
from logdriven_dagster.errors import ConfigError, InvalidProjectError
from logdriven_dagster.model import windows

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

_COLOURS = {
    "ready": "green",
    "blocked": "yellow",
    "running": "cyan",
    "inapplicable": "dim",
    "done": "green",
    "up to date": "dim",
    "SUCCESS": "green",
    "FAILURE": "bold red",
    "RUNNING": "cyan",
    "SKIPPED": "dim",
    "DISCARDED": "yellow",
    "READY": "dim",
    "missing": "bold yellow",
    "LOST": "red",
    "REFUSED": "yellow",
    "ELSEWHERE": "dim",
    "fresh": "green",
    "warning": "yellow",
    "late": "bold red",
}
_FILE_WIDTH = 160
"""Columns if there is no terminal width: pipes, files, CI logs."""


def make_console(stream: IO[str] | None = None) -> "Console":
    """Return a console on standard output or another stream; brackets in texts are not markup."""
    from logdriven_dagster.cli.shown.terminal import Terminal

    stream = stream or sys.stdout
    width = None if stream.isatty() or "COLUMNS" in os.environ else _FILE_WIDTH
    return Terminal(file=stream, width=width, markup=False, highlight=False, emoji=False)


def print_line(text: "str | Text") -> None:
    """Print one line to standard output, without wrapping."""
    make_console().print(redact(text) if isinstance(text, str) else text, soft_wrap=True)


def make_table(*columns: str) -> "Table":
    """Return an empty table; a column whose name starts with `#` holds right-aligned numbers."""
    from rich import box
    from rich.table import Table

    grid = Table(box=box.SIMPLE_HEAD, pad_edge=False, header_style="bold")
    for name in columns:
        number = name.startswith("#")
        grid.add_column(
            name.removeprefix("#"),
            justify="right" if number else "left",
            no_wrap=name not in ("reason", "error"),
            overflow="fold",
        )
    return grid


def format_state(word: str, text: str | None = None) -> "Text":
    """Return a state, or a text about it, in the state's colour."""
    from rich.text import Text

    return Text(word if text is None else text, _COLOURS.get(word, ""))


def format_plain(text: str | None, style: str = "") -> "Text":
    """Return a text of unknown origin, with secrets redacted."""
    from rich.text import Text

    from logdriven_dagster.cli.shown.control_characters import escape_control_characters

    return Text(escape_control_characters(redact(text or "")), style)


def format_number(value: int | None) -> str:
    """Format a number as `336,776`; a dash for None."""
    return "–" if value is None else f"{value:,}"


def format_merged(inserted: int | None, updated: int | None) -> str:
    """Format an upsert's counts as ` (1 inserted, 2 updated)`; empty for other modes."""
    if inserted is None and updated is None:
        return ""
    return f" ({format_number(inserted)} inserted, {format_number(updated)} updated)"


def format_seconds(value: float | None) -> str:
    """Format a duration as `0.8 s`, `3 min 05 s` or `2 h 03 min`; a dash for None."""
    if value is None:
        return "–"
    if value < 60:
        return f"{value:.1f} s"
    minutes, rest = divmod(round(value), 60)
    if minutes < 60:
        return f"{minutes} min {rest:02} s"
    return f"{minutes // 60} h {minutes % 60:02} min"


def format_brief(instant: datetime | None) -> str:
    """Format a time as `2013-01-01`, with a time of day other than midnight; a dash for None."""
    return "–" if instant is None else windows.format_brief(instant)


def point_to_errors(tables: Iterable[str]) -> None:
    """Print the command that shows the full errors of tables; nothing for no tables."""
    names = sorted(set(tables))
    if names:
        name = names[0] if len(names) == 1 else "TABLE"
        print_line(f"Show the whole errors with: logdriven log {name} --full")


def point_to_rejected_rows(tables: Iterable[str]) -> None:
    """Print the command that shows the rejected rows of tables; nothing for no tables."""
    names = sorted(set(tables))
    if names:
        name = names[0] if len(names) == 1 else "TABLE"
        print_line(f"Show the first rejected rows with: logdriven quality {name}")


def print_json(value: object) -> None:
    """Print one JSON document to standard output; times in ISO 8601."""
    sys.stdout.write(json.dumps(_convert_to_json(value), indent=2) + "\n")


def print_json_list(items: Iterable[Mapping[str, object]]) -> None:
    """Print a JSON list, one item per line, as the items arrive: a plan may hold millions."""
    separator = "[\n"
    for item in items:
        sys.stdout.write(separator + json.dumps(_convert_to_json(item)))
        separator = ",\n"
    sys.stdout.write("[]\n" if separator == "[\n" else "\n]\n")


def _convert_to_json(value: object) -> object:
    """Convert a value to JSON types; texts are redacted before quoting can split a secret."""
    match value:
        case None | bool() | int() | float():
            return value
        case datetime() | date():
            return value.isoformat()
        case Mapping():
            return {str(key): _convert_to_json(part) for key, part in value.items()}
        case list() | tuple():
            return [_convert_to_json(part) for part in value]
        case _:
            return redact(str(value))


@contextmanager
def redirect_output() -> Iterator[IO[str]]:
    """Redirect other writers of standard output (the JVM, a user's `print`) to stderr.

    Yields a stream to the real standard output.
    """
    sys.stdout.flush()
    try:
        descriptor = sys.stdout.fileno()
    except OSError:  # a test's stream; nothing else writes to it
        yield sys.stdout
        return
    kept = os.dup(descriptor)
    os.dup2(sys.stderr.fileno(), descriptor)
    try:
        with open(kept, "w", encoding="utf-8", closefd=False) as stream:
            yield stream
    finally:
        sys.stdout.flush()
        os.dup2(kept, descriptor)
        os.close(kept)


def print_error(error: Exception | str) -> None:
    """Print an error as one message on stderr, with one line for each mistake of a project."""
    from rich.text import Text

    stderr = make_console(sys.stderr)
    if isinstance(error, InvalidProjectError):
        mistakes = [_format_mistake(mistake) for mistake in error.errors]
        message = mistakes[0]
        if len(mistakes) > 1:
            stderr.print(Text("\n").join(mistakes), soft_wrap=True)
            message = Text(f"{len(mistakes)} mistakes")
    else:
        message = format_plain(str(error))
    stderr.print(Text("Error: ", "bold red").append_text(message), soft_wrap=True)


def _format_mistake(mistake: ConfigError) -> "Text":
    """Format `path:line: field: problem; hint` in colours, with a relative path if possible."""
    from rich.text import Text

    path = os.path.relpath(mistake.path)
    path = str(mistake.path) if path.startswith("..") else path
    text = Text(f"{path}:{mistake.line}: " if mistake.line else f"{path}: ", "cyan")
    if mistake.field:
        text.append(f"{mistake.field}: ", "bold")
    text.append(redact(mistake.problem))
    if mistake.hint:
        text.append(f"; {redact(mistake.hint)}", "green")
    return text
