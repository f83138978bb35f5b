"""The application: its commands, errors and exit codes.

Exit codes: 0 done, 1 a window failed, 2 bad usage or configuration, 130 or 143 interrupted.
"""

import os
import sys
import traceback
from collections.abc import Callable, Mapping
from functools import cache
from typing import Annotated, Any

import typer

from logdriven_dagster._version import __version__
from logdriven_dagster.cli.commands import audit as audit_commands
from logdriven_dagster.cli.commands import changes as change_commands
from logdriven_dagster.cli.commands import definitions as definition_commands
from logdriven_dagster.cli.commands import exchange as exchange_commands
from logdriven_dagster.cli.commands import jobs as job_commands
from logdriven_dagster.cli.commands import lineage as lineage_commands
from logdriven_dagster.cli.commands import log as log_commands
from logdriven_dagster.cli.commands import metrics as metrics_commands
from logdriven_dagster.cli.commands import plan as plan_commands
from logdriven_dagster.cli.commands import projects as project_commands
from logdriven_dagster.cli.commands import quality as quality_commands
from logdriven_dagster.cli.commands import run as run_commands
from logdriven_dagster.cli.commands import show as show_commands
from logdriven_dagster.cli.commands import spark as spark_commands
from logdriven_dagster.cli.commands import ui as ui_commands
from logdriven_dagster.cli.commands import upkeep as upkeep_commands
from logdriven_dagster.cli.former_options import Command
from logdriven_dagster.cli.installed import find_installed, list_installed
from logdriven_dagster.cli.options import GlobalNowOption, GlobalProjectOption
from logdriven_dagster.errors import (
    AttemptLostError,
    LogdrivenError,
    RefusedError,
    StepError,
    in_brief,
)
from logdriven_dagster.private_files import guard_umask


class _Commands(typer.core.TyperGroup):
    """The built-in commands and those of installed packages with other names.

    An invalid value of an option is reported in plain words.
    """

    def list_commands(self, ctx: Any) -> list[str]:
        ours = super().list_commands(ctx)
        return [*ours, *(name for name in list_installed() if name not in ours)]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        return super().get_command(ctx, cmd_name) or find_installed(cmd_name)

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except typer.BadParameter as error:
            from pydantic import ValidationError

            from logdriven_dagster.config.models.wording import describe_problem

            if isinstance(error.__cause__, ValidationError):
                error.message = describe_problem(error.__cause__)
            raise


app = typer.Typer(
    cls=_Commands,
    name="logdriven",
    no_args_is_help=True,
    pretty_exceptions_enable=False,  # its tracebacks would show secret values
    context_settings={"help_option_names": ["-h", "--help"]},
)
_database = typer.Typer(no_args_is_help=True, help="Manage the run log's database.")

_COMMANDS: Mapping[str, Mapping[str, Callable[..., None]]] = {
    "Project": {
        "init": project_commands.init,
        "validate": project_commands.validate,
        "schema": project_commands.schema,
    },
    "Running": {
        "plan": plan_commands.plan,
        "run": run_commands.run,
        "refresh": run_commands.refresh,
        "restate": change_commands.restate,
        "discard": upkeep_commands.discard,
        "skip": run_commands.skip,
        "unskip": run_commands.unskip,
    },
    "Monitoring": {
        "ui": ui_commands.ui,
        "status": plan_commands.status,
        "log": log_commands.log,
        "show": show_commands.show,
        "compare": show_commands.compare,
        "metrics": metrics_commands.metrics,
        "audit": audit_commands.audit,
        "quality": quality_commands.quality,
        "graph": plan_commands.graph,
        "lineage": lineage_commands.lineage,
        "properties": lineage_commands.properties,
    },
    "Definitions": {
        "changes": change_commands.changes,
        "apply": definition_commands.apply,
        "enable": definition_commands.enable,
        "disable": definition_commands.disable,
        "set": definition_commands.set_,
        "find": definition_commands.find,
        "history": definition_commands.history,
        "diff": definition_commands.diff,
        "rollback": definition_commands.rollback,
        "export": exchange_commands.export,
        "import": exchange_commands.import_,
    },
    "Maintenance": {
        "clean": upkeep_commands.clean,
        "archive": upkeep_commands.archive,
        "forget": upkeep_commands.forget,
        "adopt": upkeep_commands.adopt,
    },
}
"""The commands by help panel."""

for _panel, _commands in _COMMANDS.items():
    for _name, _command in _commands.items():
        app.command(_name, cls=Command, rich_help_panel=_panel)(_command)

_database.command()(log_commands.upgrade)
app.add_typer(job_commands.app, name="job", rich_help_panel="Running")
app.add_typer(spark_commands.app, name="spark", rich_help_panel="Running")
app.add_typer(upkeep_commands.app, name="upkeep", rich_help_panel="Maintenance")
app.add_typer(_database, name="db", rich_help_panel="Maintenance")


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(__version__)
        raise typer.Exit


@app.callback()
def logdriven(
    project: GlobalProjectOption = None,
    now: GlobalNowOption = None,
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Print the version."
        ),
    ] = False,
) -> None:
    """Log-driven ETL on Dagster and Spark: the run log decides what runs next."""


@cache
def _build_command_line() -> Any:
    """Build the commands, their options and their help, which takes longer than most commands."""
    return typer.main.get_command(app)


def main() -> None:
    """Run the command line; every error is one message on stderr, without secrets."""
    guard_umask()
    try:
        _build_command_line()()
    except Exception as error:  # noqa: BLE001 - a traceback may hold secrets
        sys.exit(_report(error))


def _report(error: Exception) -> int:
    """Print an error and return its exit code."""
    from logdriven_dagster.cli.shown.rendering import print_error
    from logdriven_dagster.config.secrets import redact

    if os.environ.get("LOGDRIVEN_DEBUG") == "1":
        text = "".join(traceback.format_exception(type(error), error, error.__traceback__))
        sys.stderr.write(redact(text))
    if not isinstance(error, LogdrivenError):
        hint = "unexpected error; set LOGDRIVEN_DEBUG=1 to see the traceback"
        print_error(f"{type(error).__name__}: {error} ({hint})")
        return 1
    if isinstance(error, StepError) and (brief := in_brief(str(error))) != str(error).strip():
        print_error(f"{brief} (set LOGDRIVEN_DEBUG=1 to see the whole error)")
    else:
        print_error(error)
    return 1 if isinstance(error, (RefusedError, StepError, AttemptLostError)) else 2
