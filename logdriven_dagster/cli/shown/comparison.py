"""Output of a comparison, as text, as Markdown and as JSON."""

from collections.abc import Iterator, Mapping
from dataclasses import asdict
from typing import Any

from logdriven_dagster.cli.shown import rendering
from logdriven_dagster.engine.comparison.values import Comparison, Example, SchemaDifference
from logdriven_dagster.execution.inspection.comparing import ReportedComparison

_LONGEST = 60
"""Characters of a value in the examples."""


def print_comparison(found: ReportedComparison) -> None:
    """Print the sides, the differences and the examples."""
    rendering.print_line(f"left:  {found.left.description}")
    rendering.print_line(f"right: {found.right.description}")
    style = "green" if found.result.is_equal else "yellow"
    rendering.print_line(rendering.format_plain(summarize(found), style))
    for text in _list_notes(found):
        rendering.print_line(text)
    _print_values(found.result)
    _print_rows(found.result)


def print_comparison_as_markdown(found: ReportedComparison) -> None:
    """Print the differences for a pull request."""
    print_line = rendering.print_line
    print_line(f"**{_escape(summarize(found))}**")
    print_line("")
    print_line(f"- left: {_escape(found.left.description)}")
    print_line(f"- right: {_escape(found.right.description)}")
    for text in _list_notes(found):
        print_line(f"- {_escape(text)}")
    result = found.result
    if result.columns:
        print_line("")
        print_line("| column | rows that differ |")
        print_line("| --- | ---: |")
        for column, rows in result.columns.items():
            print_line(f"| {_escape(column)} | {rows:,} |")
    if result.examples:
        print_line("")
        print_line("| row | column | left | right |")
        print_line("| --- | --- | --- | --- |")
        for example in result.examples:
            cells = (_describe_row(example), example.column or "", *_get_texts(example))
            print_line(f"| {' | '.join(map(_escape, cells))} |")


def print_comparison_as_json(found: ReportedComparison) -> None:
    """Print everything as one JSON object."""
    result = asdict(found.result)
    sides = {"left": _describe_side(found.left), "right": _describe_side(found.right)}
    equal = {"is_equal": found.result.is_equal, "summary": summarize(found)}
    rendering.print_json({**sides, **equal, "key_origin": found.key_origin, **result})


def summarize(found: ReportedComparison) -> str:
    """Return the result in one line."""
    result = found.result
    rows = _count(max(result.left_rows, result.right_rows), "row")
    if result.key and result.duplicates is None:
        rows += f" compared by ({', '.join(result.key)})"
    else:
        rows += " compared as a whole"
    parts = [*_list_differences(result)]
    if not parts and not result.schema:
        return f"{rows}: no difference"
    if not parts:
        return f"{rows}: the columns differ, nothing else"
    only = len(parts) == 1 and not result.schema
    return f"{rows}: {', '.join(parts)}{', nothing else' if only else ''}"


def _list_differences(result: Comparison) -> Iterator[str]:
    for column, rows in result.columns.items():
        yield f"{column} differs in {rows:,}"
    for side, rows in (("left", result.only_left), ("right", result.only_right)):
        if rows:
            yield f"{rows:,} only {side}"


def _list_notes(found: ReportedComparison) -> Iterator[str]:
    result = found.result
    if result.left_rows != result.right_rows:
        yield f"rows: {result.left_rows:,} left, {result.right_rows:,} right"
    if result.duplicates is not None:
        left, right = (_count(number, "key") for number in result.duplicates)
        yield (
            f"the key ({', '.join(result.key)}) is not unique: {left} left and {right} right "
            "have several rows, so rows were compared as a whole"
        )
    if not result.key:
        yield "no key is known, so rows were compared as a whole; give one with --key"
    for each in result.schema:
        yield _describe_column(each)


def _describe_column(found: SchemaDifference) -> str:
    if found.left is None:
        return f"column {found.column} ({found.right}) only right"
    if found.right is None:
        return f"column {found.column} ({found.left}) only left"
    suffix = "" if found.is_compared else "; its values were not compared"
    return f"column {found.column} is {found.left} left, {found.right} right{suffix}"


def _print_values(result: Comparison) -> None:
    examples = [each for each in result.examples if each.column is not None]
    if not examples:
        return
    grid = rendering.make_table()
    for name in (*examples[0].row, "column", "left", "right"):
        grid.add_column(rendering.format_plain(name))
    for each in examples:
        values = (*each.row.values(), each.column, each.left, each.right)
        grid.add_row(*map(_format_cell, values))
    rendering.make_console().print(grid)


def _print_rows(result: Comparison) -> None:
    for side in ("left", "right"):
        examples = [each for each in result.examples if _get_only_side(each) == side]
        for example in examples:
            copies = _describe_copies(example)
            rendering.print_line(f"only {side}{copies}: {_describe_row(example)}")


def _get_only_side(example: Example) -> str | None:
    if example.column is not None:
        return None
    return "left" if int(example.left or 0) > int(example.right or 0) else "right"


def _describe_copies(example: Example) -> str:
    if {example.left, example.right} == {"0", "1"}:
        return ""
    return f" ({example.left} copies left, {example.right} right)"


def _get_texts(example: Example) -> tuple[str, str]:
    if example.column is not None:
        return _format_text(example.left), _format_text(example.right)
    return f"{example.left} rows", f"{example.right} rows"


def _describe_row(example: Example) -> str:
    return ", ".join(f"{name}={_format_text(value)}" for name, value in example.row.items())


def _format_text(value: str | None) -> str:
    text = "NULL" if value is None else value
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"


def _format_cell(value: str | None) -> Any:
    return rendering.format_plain(_format_text(value), "dim" if value is None else "")


def _describe_side(side: Any) -> Mapping[str, Any]:
    fields = {name: value for name, value in asdict(side.side).items() if name != "window"}
    window = getattr(side.side, "window", None)
    return {"description": side.description, "window": window and str(window), **fields}


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def _escape(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ").replace("<", "&lt;")
