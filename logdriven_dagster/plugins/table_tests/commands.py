"""`test`: the tests of the project's tables."""

from pathlib import Path
from typing import Annotated

import typer

from logdriven_dagster.cli.installed import show_in_panel
from logdriven_dagster.cli.options import JsonOption, ProjectOption, open_project

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
    project: ProjectOption = None,
    as_json: JsonOption = False,
) -> None:
    """Run the tests of tables on Spark, with given rows and a temporary run log and warehouse.

    Exits with 1 if a test fails, and with 2 if a test has a mistake.
    """
    from logdriven_dagster.cli.shown import rendering
    from logdriven_dagster.plugins.table_tests import printing as shown
    from logdriven_dagster.plugins.table_tests.files import load_tests
    from logdriven_dagster.plugins.table_tests.reports import build_junit
    from logdriven_dagster.plugins.table_tests.running import open_tests

    loaded = open_project(project)
    tests = load_tests(loaded, selection or ())
    outcomes = []
    with rendering.redirect_output() as output, open_tests(loaded, tests) as opened:
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
