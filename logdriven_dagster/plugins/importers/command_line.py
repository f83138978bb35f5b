"""Options and first steps that the commands of all importers share."""

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date
from typing import TYPE_CHECKING, Annotated, Any

import typer

from logdriven_dagster.cli.installed import show_in_panel
from logdriven_dagster.cli.options import (
    JsonOption,
    ProjectOption,
    open_project,
    parse_time,
    read_data_clock,
)
from logdriven_dagster.plugins.importers.output import Manner, bring_in

if TYPE_CHECKING:
    from logdriven_dagster.config.project import Project
    from logdriven_dagster.plugins.importers.drafts import Translation
    from logdriven_dagster.plugins.importers.taking_over import Progress

OverwriteOption = Annotated[
    bool, typer.Option("--overwrite", help="Replace files that exist and differ.")
]
DryRunOption = Annotated[
    bool, typer.Option("--dry-run", help="Show the result without writing files.")
]
MapOption = Annotated[
    list[str] | None,
    typer.Option(
        "--map",
        metavar="THEIRS=OURS",
        help="A connection of the source system and the project's connection for it; "
        "may be repeated.",
    ),
]
SchemaOption = Annotated[
    str | None, typer.Option("--schema", help="The database schema; default: the default schema.")
]
LayerOption = Annotated[
    str, typer.Option("--layer", help="The layer of new tables whose names have none.")
]
PeriodOption = Annotated[
    str | None,
    typer.Option(
        "--period", help="The period of each table; default: the project's default, or 1 day."
    ),
]
StartOption = Annotated[
    str | None,
    typer.Option("--default-start", metavar="TIME", help="The start of the first time window."),
]


@dataclass(frozen=True, slots=True)
class ImportRun:
    """A run of an importer's command: the project that it writes into, and its manner."""

    project: "Project"
    how: Manner

    def bring_in(
        self,
        translation: "Translation",
        old_log: "Callable[[Project], list[Progress]] | None" = None,
    ) -> None:
        """Write the drafts and print the report; `old_log` reads the old system's progress."""
        bring_in(self.project, translation, self.how, old_log)

    def read_today(self, now: str | None) -> date:
        """Return the day of the data clock, which `--now` sets."""
        return read_data_clock(self.project, now).date()

    def check_times(self, default_start: str | None, period: str | None = None) -> None:
        """Raise BadParameter for invalid times."""
        from logdriven_dagster.model.periods import Period

        if default_start is not None:
            parse_time(self.project, default_start, "--default-start")
        try:
            Period.parse(period or "1 day")
        except ValueError as error:
            raise typer.BadParameter(str(error), param_hint="--period") from None

    def parse_map(self, texts: list[str] | None) -> dict[str, str]:
        """Parse `--map theirs=ours`; the project must have the connection `ours`."""
        connections = self.project.config.connections
        pairs = {}
        for text in texts or ():
            theirs, equals, ours = text.partition("=")
            if not equals or ours not in connections:
                known = ", ".join(connections) or "none"
                problem = f"expected THEIRS=OURS, where OURS is one of {known}, not {text!r}"
                raise typer.BadParameter(problem, param_hint="--map")
            pairs[theirs] = ours
        return pairs


def importer(command: Callable[..., None]) -> Callable[..., None]:
    """Decorate a command with the options of all importers; it gets an `ImportRun` first."""

    def run(
        *,
        overwrite: OverwriteOption = False,
        dry_run: DryRunOption = False,
        project: ProjectOption = None,
        as_json: JsonOption = False,
        **own: Any,
    ) -> None:
        command(ImportRun(open_project(project), Manner(overwrite, dry_run, as_json)), **own)

    _, *own = inspect.signature(command).parameters.values()
    shared = list(inspect.signature(run).parameters.values())[:-1]
    signature = inspect.Signature([*own, *shared])
    found: Any = run
    found.__signature__ = signature
    found.__annotations__ = {each.name: each.annotation for each in (*own, *shared)}
    found.__name__, found.__doc__ = command.__name__, command.__doc__
    found.__module__, found.__qualname__ = command.__module__, command.__qualname__
    return show_in_panel("Project")(run)
