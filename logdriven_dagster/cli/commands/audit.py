"""`audit`: the check that every row of a table's sources belongs to a window."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from logdriven_dagster.cli.options import (
    JsonOption,
    NowOption,
    ProjectOption,
    data_clock,
    open_in_force,
)

if TYPE_CHECKING:
    from logdriven_dagster.model.source_rows import SourceRows


def audit(
    table: Annotated[str, typer.Argument(help="The table whose sources are read completely.")],
    *,
    project: ProjectOption = None,
    now: NowOption = None,
    as_json: JsonOption = False,
) -> None:
    """Compare all rows of a table's sources with all of its windows.

    Exit code 1 if there are rows that no window has read or will read, or fewer rows than windows
    have read. `status` shows the last result.
    """
    from logdriven_dagster.cli.shown import rendering
    from logdriven_dagster.execution.opening import open_runner

    registered = open_in_force(project)
    loaded = registered.project
    runner = open_runner(loaded, run_log=registered.run_log)
    clock = data_clock(loaded, now)
    if as_json:
        with rendering.only_json():
            found = runner.audit(table, clock)
        rendering.print_json({"sources": [rows_json(rows) for rows in found]})
    else:
        found = runner.audit(table, clock)
        _print(found)
    if any(rows.lost or rows.gone for rows in found):
        raise typer.Exit(1)


def rows_json(rows: "SourceRows") -> Mapping[str, object]:
    """Convert a source for `audit --json` and `status --json`."""
    fields = asdict(rows)
    del fields["digest"]
    derived = {name: getattr(rows, name) for name in ("pending", "late", "gone", "lost")}
    return {**fields, **derived}


def _print(found: "Sequence[SourceRows]") -> None:
    from logdriven_dagster.cli.shown import rendering

    columns = (
        "rows",
        "done",
        "read",
        "pending",
        "future",
        "null",
        "before",
        "after",
        "late",
        "gone",
    )
    grid = rendering.table("table · step", *(f"#{name}" for name in columns))
    for rows in found:
        numbers = (
            rows.total,
            rows.done,
            rows.read,
            rows.pending,
            rows.future,
            rows.unplaced,
            rows.before,
            rows.after,
            rows.late,
            rows.gone,
        )
        grid.add_row(f"{rows.table} · {rows.step_id}", *map(rendering.number, numbers))
    rendering.console().print(grid)
    print_lost(found)


def print_lost(found: "Sequence[SourceRows]") -> None:
    """Print a line for each source with missing rows, or with rows that no window reads."""
    from logdriven_dagster.cli.shown import rendering

    for rows in found:
        if rows.message:
            when = f" ({rows.looked_at:%Y-%m-%d %H:%M} UTC)" if rows.looked_at else ""
            rendering.print_line(f"{rows.table} · {rows.step_id}: {rows.message}{when}")
