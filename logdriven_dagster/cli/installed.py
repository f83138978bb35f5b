"""Commands that installed packages add to `logdriven`.

A package registers a function with typer's annotations, or a `typer.Typer` of several commands, as
an entry point of the group `logdriven.commands` (docs/commands.md). It is loaded only when it is
run or listed, so that other commands start as fast as without it.
"""

from collections.abc import Callable
from importlib.metadata import EntryPoint
from typing import Any, TypeVar

import typer

from logdriven_dagster.entry_points import entry_points_of
from logdriven_dagster.errors import UsageError, in_brief

GROUP = "logdriven.commands"
_PANEL = "Installed packages"

C = TypeVar("C", bound=Callable[..., None])


def show_in_panel(panel: str) -> Callable[[C], C]:
    """Decorate a command that the help lists in a panel other than `Installed packages`."""

    def mark(command: C) -> C:
        vars(command)["help_panel"] = panel
        return command

    return mark


def installed_names() -> list[str]:
    """Return the names of the commands, in their order."""
    return [point.name for point in entry_points_of(GROUP)]


def installed_command(name: str) -> Any:
    """Return a click command; None if no package registers this name.

    A command that cannot be loaded raises UsageError when it is run.
    """
    point = next((each for each in entry_points_of(GROUP) if each.name == name), None)
    if point is None:
        return None
    made = typer.Typer()
    try:
        found = point.load()
        if isinstance(found, typer.Typer):
            made.add_typer(found, name=name, rich_help_panel=_PANEL)
        else:
            panel = vars(found).get("help_panel", _PANEL)
            made.command(name, rich_help_panel=panel)(found)
        made.callback()(_nothing)  # makes typer build a group that has the command
        group: Any = typer.main.get_command(made)
        return group.commands[name]
    except Exception as error:  # noqa: BLE001 - a module of a package may raise any error
        return _unusable(point, error)


def _unusable(point: EntryPoint, error: Exception) -> Any:
    problem = f"{point.value} cannot be used: {in_brief(f'{type(error).__name__}: {error}')}"
    made = typer.Typer()
    settings = {"ignore_unknown_options": True, "allow_extra_args": True}
    made.command(
        point.name,
        rich_help_panel=_PANEL,
        help=problem,
        add_help_option=False,
        context_settings=settings,
    )(_raising(problem))
    return typer.main.get_command(made)


def _raising(problem: str) -> Callable[[], None]:
    def fail() -> None:
        raise UsageError(f"{problem}; repair or remove the package that registers it as {GROUP}")

    return fail


def _nothing() -> None:
    pass
