"""`test`: the tests of the project's tables."""

from pathlib import Path
from typing import Annotated

import typer

from logdriven_dagster.cli.installed import show_in_panel
from logdriven_dagster.cli.options import (
    JsonOption,
    ProjectOption,
    find_window,
    open_in_force,
    open_project,
)

SelectionArgument = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="SELECTION",
        help="Tables or selections such as ods.*, or files of tests; default: all tests.",
    ),
]


@show_in_panel("Project")
def run_tests(
    selection: SelectionArgument = None,
    *,
    junit: Annotated[
        Path | None,
        typer.Option("--junit", metavar="FILE", help="Also write the results as JUnit XML."),
    ] = None,
    create: Annotated[
        str | None,
        typer.Option(
            "--create", metavar="TABLE", help="Write a test from real rows of a window, instead."
        ),
    ] = None,
    window: Annotated[
        str | None, typer.Option(metavar="START", help="With --create: the start of the window.")
    ] = None,
    rows: Annotated[
        int,
        typer.Option(min=1, help="With --create: the maximum number of rows of each input."),
    ] = 10,
    project: ProjectOption = None,
    as_json: JsonOption = False,
) -> None:
    """Run the tests of tables on Spark, with given rows and a temporary run log and warehouse.

    Exits with 1 if a test fails, and with 2 if a test has a mistake.
    """
    if create is not None:
        _create_test(create, window, rows, project)
        return
    if window is not None:
        raise typer.BadParameter("only together with --create", param_hint="--window")
    from logdriven_dagster.cli.shown import rendering
    from logdriven_dagster.plugins.table_tests import printing as shown
    from logdriven_dagster.plugins.table_tests.files import load_tests
    from logdriven_dagster.plugins.table_tests.reports import build_junit
    from logdriven_dagster.plugins.table_tests.running import open_tests

    loaded = open_project(project)
    tests = load_tests(loaded, selection or ())
    outcomes = []
    tables = {each.spec.table for each in tests}
    with rendering.redirect_output() as output, open_tests(loaded, tables) as opened:
        for each in tests:
            outcomes.append(opened.run(each))
            if not as_json:
                shown.print_outcome(outcomes[-1], output)
    if as_json:
        shown.print_as_json(outcomes)
    else:
        shown.print_summary(outcomes)
    if junit is not None:
        _write(junit, build_junit(outcomes, loaded.name))
    if any(not outcome.has_passed for outcome in outcomes):
        raise typer.Exit(2 if any(outcome.is_broken for outcome in outcomes) else 1)


def _write(path: Path, text: str) -> None:
    """Write a file. Raises BadParameter if that is not possible."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        problem = f"could not write {path}: {error.strerror}"
        raise typer.BadParameter(problem, param_hint="--junit") from None


def _create_test(table: str, window: str | None, rows: int, folder: str | None) -> None:
    """Write a test from real rows, and print its path."""
    from logdriven_dagster.cli.shown import rendering
    from logdriven_dagster.execution.opening import open_runner
    from logdriven_dagster.plugins.table_tests.creation import Creation

    registered = open_in_force(folder)
    config = registered.project.table(table)
    if config.is_sliced:
        problem = f"{table} has no windows of time; write the test by hand"
        raise typer.BadParameter(problem, param_hint="--create")
    if window is None:
        problem = "missing; name the start of a window whose rows the test gives"
        raise typer.BadParameter(problem, param_hint="--window")
    runner = open_runner(registered.project, run_log=registered.run_log)
    chosen = find_window(runner, table, window)
    with rendering.redirect_output():
        path = Creation(runner, config, chosen, rows).write()
    rendering.print_line(f"Wrote {path}. Name its rule, and remove rows that it does not need.")
