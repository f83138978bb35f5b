"""`upkeep expire-snapshots` and `upkeep compact-files`: how Iceberg tables are kept small."""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Annotated

import typer

from logdriven_dagster.cli.options import (
    JsonOption,
    ProjectOption,
    TablesArgument,
    open_project,
    parse_duration,
)
from logdriven_dagster.model.upkeep import Compaction, Expiry

if TYPE_CHECKING:
    from logdriven_dagster.model.upkeep import Upkept

app = typer.Typer(no_args_is_help=True, help="Keep Iceberg tables small; no row changes.")

DryRunOption = Annotated[bool, typer.Option("--dry-run", help="Only tell what would be done.")]

_MEGABYTE = 1_000_000


@app.command("expire-snapshots")
def expire_snapshots(
    tables: TablesArgument = None,
    *,
    older_than: Annotated[
        str,
        typer.Option(
            "--older-than", metavar="DURATION", help="Longer than any reader or run takes."
        ),
    ],
    keep: Annotated[
        int, typer.Option(min=1, help="The newest snapshots, which stay at any age.")
    ] = Expiry().keep,
    dry_run: DryRunOption = False,
    project: ProjectOption = None,
    as_json: JsonOption = False,
) -> None:
    """Remove old snapshots of Iceberg tables, and the files that only they name."""
    loaded, age = open_project(project), parse_duration(older_than, "--older-than")

    from logdriven_dagster.execution import upkeep
    from logdriven_dagster.runlog import RunLog

    work = upkeep.expirable if dry_run else upkeep.expire_snapshots
    run_log = RunLog.open(loaded.run_log_url)
    _print(work(loaded, run_log, tables or [], age, Expiry(keep)), as_json=as_json)


@app.command("compact-files")
def compact_files(
    tables: TablesArgument = None,
    *,
    min_files: Annotated[
        int, typer.Option(min=2, help="Fewer small files of a window are left alone.")
    ] = Compaction().min_files,
    target_size: Annotated[
        int, typer.Option(min=1, help="Megabytes that a file should have.")
    ] = Compaction().target_size // _MEGABYTE,
    dry_run: DryRunOption = False,
    project: ProjectOption = None,
    as_json: JsonOption = False,
) -> None:
    """Write the small files of each window of Iceberg tables anew as few."""
    loaded, options = open_project(project), Compaction(min_files, target_size * _MEGABYTE)

    from logdriven_dagster.execution import upkeep

    work = upkeep.compactable if dry_run else upkeep.compact_files
    _print(work(loaded, tables or [], options), as_json=as_json)


def _print(done: "Iterable[Upkept]", *, as_json: bool) -> None:
    """One line for each table, as soon as it is done."""
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
