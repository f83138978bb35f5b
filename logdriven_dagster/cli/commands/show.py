"""`show`: the rows of a table, or the row counts of its windows."""

from typing import TYPE_CHECKING, Annotated

import typer

from logdriven_dagster.cli.options import (
    JsonOption,
    NowOption,
    ProjectOption,
    WindowOption,
    find_window,
    open_in_force,
    read_data_clock,
)

if TYPE_CHECKING:
    from datetime import datetime

    from logdriven_dagster.execution.runner import Runner
    from logdriven_dagster.model.logs import WindowCount

SqlOption = Annotated[
    str | None,
    typer.Option("--sql", metavar="QUERY", help="Show the result of a query that reads the table."),
]
CountsOption = Annotated[
    bool,
    typer.Option(
        "--counts", help="Draw the number of rows that each window wrote, from the run log."
    ),
]


def show(
    table: Annotated[str, typer.Argument(help="The table.")],
    *,
    window: WindowOption = None,
    limit: Annotated[int, typer.Option(min=1, help="The maximum number of rows to show.")] = 20,
    sql: SqlOption = None,
    counts: CountsOption = False,
    project: ProjectOption = None,
    now: NowOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show rows of a table as its readers see them, without Spark if possible.

    With --counts: the number of rows that each of its newest windows wrote.
    """
    from logdriven_dagster.cli.shown import rows
    from logdriven_dagster.execution.opening import open_runner

    if counts and (window or sql):
        raise typer.BadParameter("--counts cannot be combined with --window or --sql")
    registered = open_in_force(project)
    runner = open_runner(registered.project, run_log=registered.run_log)
    table = runner.project.table(table).table
    if counts:
        found = _read_counts(runner, table, read_data_clock(runner.project, now), limit)
        rows.print_counts(table, found, as_json=as_json)
    else:
        _print_rows(runner, table, window, sql, limit=limit, as_json=as_json)


def _print_rows(
    runner: "Runner", table: str, window: str | None, sql: str | None, *, limit: int, as_json: bool
) -> None:
    from logdriven_dagster.cli.shown import rendering, rows
    from logdriven_dagster.engine.looking import look

    project = runner.project
    chosen = None if window is None else find_window(runner, table, window)
    most = limit if as_json else limit + 1  # one more shows that there are more
    with rendering.redirect_output():  # Spark may start, and print
        read = look(project, lambda: runner.engine, table, window=chosen, sql=sql, limit=most)
    if as_json:
        rows.print_rows_as_json(read, project.zone)
    else:
        rows.print_rows(read, project.zone, limit)


def _read_counts(runner: "Runner", table: str, now: "datetime", most: int) -> "list[WindowCount]":
    from logdriven_dagster.planning.gaps import add_missing
    from logdriven_dagster.runlog.history.window_counts import read_window_counts

    config = runner.project.table(table)
    counts = runner.run_log.ask(lambda conn: read_window_counts(conn, config, most))
    return add_missing(config, runner.plan(now, [table]).tables[table].log, counts, now, most)
