"""`quality`: the results of data quality rules."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any

import typer

from logdriven_dagster.cli.options import JsonOption, ProjectOption, open_project

if TYPE_CHECKING:
    from rich.text import Text

_EXAMPLES = 3


def quality(
    table: Annotated[str, typer.Argument(help="A table whose steps have rules.")],
    *,
    limit: Annotated[int, typer.Option(min=1, help="The maximum number of attempts to show.")] = 1,
    project: ProjectOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show the results of the data quality rules, newest attempt first."""
    from logdriven_dagster.cli.shown import rendering
    from logdriven_dagster.execution.definitions.homes import open_run_log
    from logdriven_dagster.runlog.observed.quality import newest

    loaded = open_project(project)
    name = loaded.table(table).table
    with open_run_log(loaded).read() as conn:
        attempts = newest(conn, name, limit)
    if as_json:
        rendering.print_json_list(attempts)
    elif not attempts:
        rendering.print_line(f"No rows of {name} have been checked yet.")
    for attempt in [] if as_json else attempts:
        _print_attempt(attempt)


def _print_attempt(attempt: Mapping[str, Any]) -> None:
    from logdriven_dagster.cli.shown import rendering

    start, end = attempt["data_range_start"] or "?", attempt["data_range_end"] or "?"
    rendering.print_line(f"job {attempt['job_id']}, {start} – {end}, {attempt['status']}")
    grid = rendering.table("step", "column", "rule", "level", "#rows", "#checked", "first ids")
    for rule in attempt["rules"]:
        grid.add_row(*_cells(rule))
    rendering.console().print(grid)


def _cells(rule: Mapping[str, Any]) -> "list[str | Text]":
    from logdriven_dagster.cli.shown import rendering

    broken = rule["warn_count"] + rule["error_count"]
    ids = "; ".join(
        ", ".join(str(value) for value in row.values()) for row in rule["ids"][:_EXAMPLES]
    )
    colour = "red" if rule["level"] == "error" else "yellow"
    return [
        rule["step"],
        rule["column"] or "–",
        rendering.plain(rule["rule"], colour if broken else "green"),
        rule["level"],
        rendering.number(broken),
        rendering.number(rule["checked_count"]),
        rendering.plain(ids, "dim"),
    ]
