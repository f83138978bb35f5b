"""The application: its commands, and what its errors and exit codes look like.

Exit codes: 0 done, 1 a window failed, 2 bad usage or configuration, 130 or 143 interrupted.
"""

import os
import sys
import traceback
from typing import Annotated

import typer

from logdriven_dagster.cli import (
    definition_commands,
    exchange_commands,
    graph_commands,
    import_commands,
    job_commands,
    lineage_commands,
    log_commands,
    plan_commands,
    project_commands,
    quality_commands,
    report_commands,
    run_commands,
    upkeep_commands,
    upkeep_files,
)
from logdriven_dagster.cli.options import GlobalNowOption, GlobalProjectOption
from logdriven_dagster.errors import AttemptLostError, LogdrivenError, RefusedError, StepError

app = typer.Typer(
    name="logdriven",
    no_args_is_help=True,
    pretty_exceptions_enable=False,  # its tracebacks would show values that are secrets
    context_settings={"help_option_names": ["-h", "--help"]},
)
_database = typer.Typer(no_args_is_help=True, help="Look after the run log's database.")

app.command()(project_commands.init)
app.command()(project_commands.validate)
app.command()(project_commands.schema)
app.command()(plan_commands.plan)
app.command()(plan_commands.status)
app.command()(graph_commands.graph)
app.command()(definition_commands.apply)
app.command()(definition_commands.enable)
app.command()(definition_commands.disable)
app.command("set")(definition_commands.set_)
app.command()(definition_commands.history)
app.command()(definition_commands.diff)
app.command()(definition_commands.rollback)
app.command()(definition_commands.find)
app.command()(exchange_commands.export)
app.command("import")(exchange_commands.import_)
app.command()(run_commands.run)
app.command()(run_commands.refresh)
app.command()(upkeep_commands.discard)
app.command()(log_commands.log)
app.command()(quality_commands.quality)
app.command()(lineage_commands.lineage)
app.command()(lineage_commands.properties)
app.command()(report_commands.report)
app.command()(upkeep_commands.clean)
app.command()(upkeep_commands.archive)
app.command()(import_commands.scaffold)
app.command("import-kettle")(import_commands.import_kettle)
app.command("import-sharpetl")(import_commands.import_sharpetl)
_database.command()(log_commands.upgrade)
app.add_typer(_database, name="db")
app.add_typer(job_commands.app, name="job")
app.add_typer(upkeep_files.app, name="upkeep")


def _version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        typer.echo(version("logdriven_dagster"))
        raise typer.Exit


@app.callback()
def logdriven(
    project: GlobalProjectOption = None,
    now: GlobalNowOption = None,
    version: Annotated[
        bool,
        typer.Option("--version", callback=_version, is_eager=True, help="Print the version."),
    ] = False,
) -> None:
    """Log-driven ETL on Dagster and Spark: the run log decides what runs next."""


def main() -> None:
    """Run the command line; every error is one message on stderr, without secrets."""
    try:
        app()
    except Exception as error:  # noqa: BLE001 - a traceback may hold secrets
        sys.exit(_report(error))


def _report(error: Exception) -> int:
    """Show an error and give the exit code that goes with it."""
    from logdriven_dagster.cli.rendering import print_error
    from logdriven_dagster.config.secrets import redact

    if os.environ.get("LOGDRIVEN_DEBUG") == "1":
        text = "".join(traceback.format_exception(type(error), error, error.__traceback__))
        sys.stderr.write(redact(text))
    if not isinstance(error, LogdrivenError):
        hint = "unexpected; LOGDRIVEN_DEBUG=1 shows where"
        print_error(f"{type(error).__name__}: {error} ({hint})")
        return 1
    print_error(error)
    return 1 if isinstance(error, (RefusedError, StepError, AttemptLostError)) else 2
