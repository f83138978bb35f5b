"""`discard`, `clean` and `archive`: what operators do beside running windows."""

from datetime import timedelta
from typing import Annotated

import typer

from logdriven_dagster.cli.options import (
    JsonOption,
    ProjectOption,
    open_in_force,
    parse_duration,
    parse_time,
)


def discard(
    table: Annotated[str, typer.Argument(help="The table.")],
    *,
    start: Annotated[
        str | None,
        typer.Option("--from", metavar="TIME", help="Only the window that starts then."),
    ] = None,
    project: ProjectOption = None,
) -> None:
    """Stop what is running of a table: it publishes nothing, its windows are pending again."""
    registered = open_in_force(project)
    loaded, run_log = registered.project, registered.run_log
    moment = parse_time(loaded, start, "--from") if start else None

    from logdriven_dagster.cli.shown.rendering import print_line
    from logdriven_dagster.execution import upkeep
    from logdriven_dagster.execution.owners import current_owner

    for item in upkeep.discard(loaded, run_log, table, current_owner(), moment):
        print_line(f"DISCARDED  {table} {item.window}  job {item.job_id} of {item.owner}")


def clean(
    *,
    older_than: Annotated[
        str, typer.Option("--older-than", metavar="DURATION", help="Leave younger files alone.")
    ] = "1 hour",
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only list what would be removed.")
    ] = False,
    project: ProjectOption = None,
    as_json: JsonOption = False,
) -> None:
    """Remove what dead attempts left behind: staged rows, files that no snapshot names."""
    registered, age = open_in_force(project), parse_duration(older_than, "--older-than")
    loaded, run_log = registered.project, registered.run_log

    from logdriven_dagster.cli.shown import rendering
    from logdriven_dagster.execution import upkeep
    from logdriven_dagster.execution.owners import current_owner

    if not dry_run:
        upkeep.bury_expired(run_log, current_owner())
    found = []
    for item in upkeep.garbage(loaded, run_log, age):
        if not dry_run:
            item.remove()
        found.append(item)
    total = sum(item.bytes or 0 for item in found)
    if as_json:
        listed = [
            {"table": i.table, "kind": i.kind, "location": i.location, "bytes": i.bytes}
            for i in found
        ]
        rendering.print_json({"removed": not dry_run, "bytes": total, "garbage": listed})
        return
    for item in found:
        rendering.print_line(f"{item.kind}  {item.table}  {item.location}")
    verb = "would be removed" if dry_run else "removed"
    number = "1 item" if len(found) == 1 else f"{len(found)} items"
    rendering.print_line(f"{number}, {total / 1e6:.1f} MB, {verb}.")


def archive(
    *,
    older_than: Annotated[
        str, typer.Option("--older-than", metavar="DURATION", help="By when attempts ended.")
    ],
    project: ProjectOption = None,
) -> None:
    """Move old attempts to the archive tables; what is pending does not change."""
    registered, age = open_in_force(project), parse_duration(older_than, "--older-than")
    loaded, run_log = registered.project, registered.run_log
    if age < timedelta(days=1):
        raise typer.BadParameter("keep at least 1 day of the log", param_hint="--older-than")

    from logdriven_dagster.cli.shown.rendering import print_line
    from logdriven_dagster.execution import upkeep

    moved = sum(upkeep.archive_log(loaded, run_log, age))
    number = "1 attempt" if moved == 1 else f"{moved:,} attempts"
    print_line(f"{number} moved to job_log_archive and step_log_archive.")
