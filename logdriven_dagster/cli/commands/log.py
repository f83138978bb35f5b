"""`log` and `db upgrade`: the run log's rows and its schema."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any
from zoneinfo import ZoneInfo

import typer

from logdriven_dagster.cli.options import (
    JsonOption,
    ProjectOption,
    WindowOption,
    open_in_force,
    open_project,
    window_named,
)

if TYPE_CHECKING:
    from rich.text import Text


def log(
    table: Annotated[str | None, typer.Argument(help="The table; default: all tables.")] = None,
    *,
    window: WindowOption = None,
    limit: Annotated[int, typer.Option(min=1, help="The maximum number of attempts to show.")] = 20,
    full: Annotated[
        bool, typer.Option("--full", help="Show the whole errors, not only their first lines.")
    ] = False,
    project: ProjectOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show the latest attempts and their steps, newest first."""
    from logdriven_dagster.cli.shown import rendering
    from logdriven_dagster.config.models.dependencies import is_asset
    from logdriven_dagster.execution.opening import open_runner
    from logdriven_dagster.runlog.history.logs import attempts, attempts_of

    if window is not None and table is None:
        raise typer.BadParameter(
            "a window belongs to one table; give the table, too", param_hint="--window"
        )
    registered = open_in_force(project)
    loaded = registered.project
    name = table if table is None or is_asset(table) else loaded.table(table).table
    if name is not None and window is not None:
        runner = open_runner(loaded, run_log=registered.run_log)
        chosen = window_named(runner, name, window)
        rows = runner.run_log.ask(lambda conn: attempts_of(conn, [(name, chosen)], limit)[0])
    else:
        rows = registered.run_log.ask(lambda conn: attempts(conn, name, limit))
    if as_json:
        rendering.print_json_list(rows)
    elif rows:
        _print_attempts(rows, loaded.zone)
        if full:
            _print_errors(rows)
    else:
        rendering.print_line("No attempts yet.")


def _print_attempts(rows: list[dict[str, Any]], zone: ZoneInfo) -> None:
    from logdriven_dagster.cli.shown import rendering
    from logdriven_dagster.execution.notifications import wording as shown

    grid = rendering.table(
        "#job", "table · step", "window", "status", "started", "#time", "#read", "#written", "error"
    )
    for row in rows:
        grid.add_row(
            str(row["job_id"]),
            row["job_name"],
            shown.window(row),
            rendering.state(row["status"]),
            shown.clock(row["job_start_time"], zone) or "–",
            rendering.seconds(shown.seconds(row)),
            *("", "", (row["runtime_args"] or {}).get("--definition", "")),
            style="bold",
        )
        for step in row["steps"]:
            grid.add_row("", *_step_cells(step), style="dim")
    rendering.console().print(grid)


def _print_errors(rows: list[dict[str, Any]]) -> None:
    """Print the errors of the attempts, newest first."""
    from logdriven_dagster.cli.shown import rendering
    from logdriven_dagster.config.secrets import redact
    from logdriven_dagster.execution.notifications import wording as shown

    for row in rows:
        for step in row["steps"]:
            if step["error"]:
                heading = f"job {row['job_id']}, {row['job_name']} {shown.window(row)}"
                rendering.print_line(f"{heading}, step {step['step_id']}:")
                for line in redact(step["error"]).strip().splitlines():
                    rendering.print_line(f"  {line}".rstrip())
                rendering.print_line("")


def _step_cells(step: Mapping[str, Any]) -> "list[str | Text]":
    from logdriven_dagster.cli.shown import rendering

    skipped = step["status"] == "SKIPPED" and step["output"]
    exceptional = (
        (step["malformed_count"], "malformed records"),
        (step["outside_count"], "rows of no window"),
    )
    counted = ", ".join(f"{number:,} {what}" for number, what in exceptional if number)
    message = (step["error"] or skipped or counted).strip().splitlines()[:1]
    return [
        f"  {step['step_id']}",
        "",
        rendering.state(step["status"]),
        "",
        f"{step['duration']} s",
        rendering.number(step["source_count"]),
        rendering.number(step["target_count"])
        + rendering.merged(step["inserted_count"], step["updated_count"]),
        rendering.plain(
            "".join(message), "red" if step["error"] else "dim" if skipped else "yellow"
        ),
    ]


def upgrade(project: ProjectOption = None) -> None:
    """Create the run log's tables, or migrate them to this version's schema."""
    from logdriven_dagster.cli.shown.rendering import print_line
    from logdriven_dagster.runlog import RunLog

    url = open_project(project).run_log_url
    RunLog.open(url)
    print_line(f"The run log is up to date: {url.render_as_string(hide_password=True)}")
