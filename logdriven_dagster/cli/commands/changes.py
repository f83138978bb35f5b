"""`changes` and `restate`: the effects of edited files, and windows that follow them."""

from enum import Enum
from typing import Annotated

import typer

from logdriven_dagster.cli.commands.definitions import OperatorOption
from logdriven_dagster.cli.options import (
    JsonOption,
    NowOption,
    ProjectOption,
    RangeEndOption,
    RangeStartOption,
    open_in_force,
    open_to_run,
    parse_range,
    read_data_clock,
)


class EffectName(str, Enum):
    """The classes of changes that have an effect, the smallest first."""

    ADDITIVE = "additive"
    VALUES = "values"
    GRAIN = "grain"
    SHAPE = "shape"
    GRID = "grid"
    CONTRACT = "contract"


def changes(
    *,
    fail_on: Annotated[
        EffectName | None,
        typer.Option("--fail-on", help="Exit with 1 if a change has this class or a larger one."),
    ] = None,
    markdown: Annotated[
        bool, typer.Option("--markdown", help="Print a table for a pull request.")
    ] = False,
    project: ProjectOption = None,
    now: NowOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show what edited files do before they are applied.

    Each table has a class, the readers that see the change, and the windows that become old.
    """
    from logdriven_dagster.cli.shown.changes import print_markdown, print_report
    from logdriven_dagster.cli.shown.rendering import print_json_list
    from logdriven_dagster.config.changes.fields import Effect
    from logdriven_dagster.execution.definitions.change_report import report_changes

    if as_json and markdown:
        raise typer.BadParameter("--json and --markdown exclude each other")
    registered = open_in_force(project)
    found = report_changes(registered, read_data_clock(registered.project, now))
    if as_json:
        print_json_list(each.as_json() for each in found)
    else:
        (print_markdown if markdown else print_report)(found)
    if fail_on is not None and any(each.effect >= Effect[fail_on.name] for each in found):
        raise typer.Exit(1)


def restate(
    table: Annotated[str, typer.Argument(help="The table.")],
    *,
    start: RangeStartOption = None,
    end: RangeEndOption = None,
    downstream: Annotated[
        bool,
        typer.Option(
            "--downstream",
            help="Also restate windows by older versions of the tables that read it, and all "
            "windows of those with on_upstream_refresh: ignore.",
        ),
    ] = False,
    reason: Annotated[str, typer.Option("--reason", help="The reason, which is recorded.")],
    operator: OperatorOption = None,
    project: ProjectOption = None,
    now: NowOption = None,
    as_json: JsonOption = False,
) -> None:
    """Make finished windows by older versions of a table pending again.

    The next run makes them, oldest first. Readers see the old rows of a window until then.
    """
    from logdriven_dagster.cli.shown.rendering import print_json_list, print_line
    from logdriven_dagster.execution.catching_up.restating import list_with_downstream
    from logdriven_dagster.execution.catching_up.restating import restate as request
    from logdriven_dagster.execution.definitions.registering import author

    runner, clock = open_to_run("restate", project, now)
    loaded = runner.project
    loaded.table(table)
    names = list_with_downstream(loaded, table) if downstream else (table,)
    ordered = [table, *(name for name in names if name != table)]
    span = parse_range(loaded, table, start, end, clock)
    found = request(loaded, runner.run_log, ordered, span, author(reason, operator))
    if as_json:
        print_json_list({"table": each.table, "windows": each.windows} for each in found)
        return
    for each in found:
        number = "1 window is" if each.windows == 1 else f"{each.windows:,} windows are"
        print_line(f"{each.table}: {number} pending again")
    print_line("Run them with: logdriven run")
