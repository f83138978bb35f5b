"""`discard`, `clean`, `archive` and `upkeep …`: maintenance by operators."""

from collections.abc import Iterable
from datetime import timedelta
from typing import TYPE_CHECKING, Annotated

import typer

from logdriven_dagster.cli.options import (
    ExcludeOption,
    JsonOption,
    ProjectOption,
    TablesArgument,
    open_in_force,
    open_project,
    parse_duration,
    parse_time,
)
from logdriven_dagster.model.upkeep import Compaction, Expiry

if TYPE_CHECKING:
    from logdriven_dagster.model.upkeep import Upkept

app = typer.Typer(no_args_is_help=True, help="Keep Iceberg and Delta tables small; no row changes.")

DryRunOption = Annotated[
    bool, typer.Option("--dry-run", help="Show the result without changing files.")
]

_MEGABYTE = 1_000_000


def discard(
    table: Annotated[str, typer.Argument(help="The table.")],
    *,
    start: Annotated[
        str | None,
        typer.Option("--window", metavar="TIME", help="Only the window that starts at this time."),
    ] = None,
    project: ProjectOption = None,
) -> None:
    """Stop running windows of a table: they publish nothing and are pending again."""
    registered = open_in_force(project)
    loaded, run_log = registered.project, registered.run_log
    instant = parse_time(loaded, start, "--window") if start else None

    from logdriven_dagster.cli.shown.rendering import print_line
    from logdriven_dagster.execution import upkeep
    from logdriven_dagster.execution.owners import current_owner

    for item in upkeep.discard(loaded, run_log, table, current_owner(), instant):
        print_line(f"DISCARDED  {table} {item.window}  job {item.job_id} of {item.owner}")


def clean(
    *,
    older_than: Annotated[
        str,
        typer.Option(
            "--older-than", metavar="DURATION", help="The minimum age of files to remove."
        ),
    ] = "1 hour",
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="List the files to remove without removing them.")
    ] = False,
    project: ProjectOption = None,
    as_json: JsonOption = False,
) -> None:
    """Remove leftovers of dead attempts: staged rows, and files that no snapshot names."""
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


def forget(
    table: Annotated[
        str, typer.Argument(help="A table that the project does not define any more.")
    ],
    *,
    drop_target: Annotated[
        bool, typer.Option("--drop-target", help="Also remove the rows of its targets.")
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask for confirmation.")] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="List what would be removed without removing it.")
    ] = False,
    project: ProjectOption = None,
    as_json: JsonOption = False,
) -> None:
    """Remove a deleted table from the run log; without --drop-target, the rows of its target stay.

    Targets are removed first, so that an interrupted command can be repeated.
    """
    from logdriven_dagster.cli.shown import rendering
    from logdriven_dagster.execution.definitions.removed_tables import (
        forget_table,
        list_parts,
        refuse_held,
        remove_parts,
        rows_to_forget,
    )

    registered = open_in_force(project)
    parts = list_parts(registered, table) if drop_target else []
    rows = rows_to_forget(registered, table, parts)
    if not dry_run:
        if not yes:
            for part in parts:
                typer.echo(f"{part.kind}  {part.location}", err=True)
            places = f" and {len(parts):,} parts of its targets" if parts else ""
            question = f"Remove {sum(rows.values()):,} rows of {table} from the run log{places}?"
            typer.confirm(question, abort=True, err=True)
        refuse_held(registered, table)
        remove_parts(parts)
        rows = forget_table(registered, table)
    if as_json:
        listed = [{"kind": p.kind, "location": p.location, "bytes": p.bytes} for p in parts]
        shown = {"table": table, "removed": not dry_run, "rows": rows}
        rendering.print_json({**shown, "targets": listed} if drop_target else shown)
        return
    verb = "would be removed" if dry_run else "removed"
    for part in parts:
        rendering.print_line(f"{part.kind}  {part.location}  {verb}")
    for name, count in rows.items():
        rendering.print_line(f"{name}  {count:,}")
    rendering.print_line(f"{sum(rows.values()):,} rows of {table} {verb} from the run log.")


def archive(
    *,
    older_than: Annotated[
        str,
        typer.Option(
            "--older-than",
            metavar="DURATION",
            help="Move attempts that ended longer ago than this.",
        ),
    ],
    project: ProjectOption = None,
) -> None:
    """Move old attempts to the archive tables; pending windows do not change."""
    registered, age = open_in_force(project), parse_duration(older_than, "--older-than")
    loaded, run_log = registered.project, registered.run_log
    if age < timedelta(days=1):
        raise typer.BadParameter("must be at least 1 day", param_hint="--older-than")

    from logdriven_dagster.cli.shown.rendering import print_line
    from logdriven_dagster.execution import upkeep

    moved = sum(upkeep.archive_log(loaded, run_log, age))
    number = "1 attempt" if moved == 1 else f"{moved:,} attempts"
    print_line(f"{number} moved to job_log_archive and step_log_archive.")


def adopt(
    old_name: Annotated[
        str | None,
        typer.Option("--from", metavar="PROJECT", help="The former name of the project."),
    ] = None,
    project: ProjectOption = None,
    as_json: JsonOption = False,
) -> None:
    """Continue the windows of a project that was moved or renamed, with its current files."""
    loaded = open_project(project)

    from logdriven_dagster.cli.shown import rendering
    from logdriven_dagster.execution.definitions import homes
    from logdriven_dagster.runlog import RunLog

    adopted = homes.adopt(loaded, RunLog.open(loaded.run_log_url), old_name)
    if as_json:
        rendering.print_json_list(
            {"name": item.name, "now": item.now, "before": item.was} for item in adopted
        )
        return
    for item in adopted:
        before = f"  (before: {item.was})" if item.was else ""
        rendering.print_line(f"{item.name}  {item.now}{before}")
    if not adopted:
        rendering.print_line(f"The run log has recorded the tables of {loaded.name} in this place.")


@app.command("expire-snapshots")
def expire_snapshots(
    tables: TablesArgument = None,
    *,
    exclude: ExcludeOption = None,
    older_than: Annotated[
        str,
        typer.Option(
            "--older-than",
            metavar="DURATION",
            help="The minimum age of snapshots to remove; must be longer than any reader or "
            "run takes.",
        ),
    ],
    keep: Annotated[
        int, typer.Option(min=1, help="The number of newest snapshots to keep at any age.")
    ] = Expiry().keep,
    dry_run: DryRunOption = False,
    project: ProjectOption = None,
    as_json: JsonOption = False,
) -> None:
    """Remove old versions of Iceberg and Delta tables, and the files that only they name."""
    loaded, age = open_project(project), parse_duration(older_than, "--older-than")

    from logdriven_dagster.config.derived.selection import select_tables
    from logdriven_dagster.execution import upkeep
    from logdriven_dagster.execution.definitions.homes import open_run_log

    work = upkeep.expirable if dry_run else upkeep.expire_snapshots
    run_log = open_run_log(loaded)
    selected = select_tables(loaded, tables or [], exclude or [])
    _print_upkept(work(loaded, run_log, selected, age, Expiry(keep)), as_json=as_json)


@app.command("compact-files")
def compact_files(
    tables: TablesArgument = None,
    *,
    exclude: ExcludeOption = None,
    min_files: Annotated[
        int, typer.Option(min=2, help="The minimum number of small files of a window to compact.")
    ] = Compaction().min_files,
    target_size: Annotated[
        int, typer.Option(min=1, help="The target size of a file in megabytes.")
    ] = Compaction().target_size // _MEGABYTE,
    dry_run: DryRunOption = False,
    project: ProjectOption = None,
    as_json: JsonOption = False,
) -> None:
    """Rewrite the small files of each window of Iceberg and Delta tables as few."""
    loaded, options = open_project(project), Compaction(min_files, target_size * _MEGABYTE)

    from logdriven_dagster.config.derived.selection import select_tables
    from logdriven_dagster.execution import upkeep

    work = upkeep.compactable if dry_run else upkeep.compact_files
    selected = select_tables(loaded, tables or [], exclude or [])
    _print_upkept(work(loaded, selected, options), as_json=as_json)


def _print_upkept(done: "Iterable[Upkept]", *, as_json: bool) -> None:
    """Print one line for each table as soon as it is done."""
    from dataclasses import asdict

    from logdriven_dagster.cli.shown import rendering

    if as_json:
        rendering.print_json_list(map(asdict, done))
        return
    files = size = 0
    for item in done:
        rendering.print_line(f"{item.table}: {item.text}")
        files, size = files + item.files, size + item.bytes
    rendering.print_line(f"{files} files, {size / _MEGABYTE:.1f} MB.")
