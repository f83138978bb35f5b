"""`plan`, `status` and `graph`: pending windows, the state of tables, and dependencies."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict
from datetime import datetime
from itertools import islice
from typing import TYPE_CHECKING, Annotated

import typer

from logdriven_dagster.cli.options import (
    ExcludeOption,
    JsonOption,
    NowOption,
    ProjectOption,
    TablesArgument,
    open_in_force,
    read_data_clock,
)

if TYPE_CHECKING:
    from logdriven_dagster.engine.targets.existing_rows import ExistingRows
    from logdriven_dagster.execution.definitions.changed_targets import ChangedTarget
    from logdriven_dagster.execution.definitions.old_windows import OldWindows
    from logdriven_dagster.execution.definitions.registering import Registered
    from logdriven_dagster.execution.definitions.renames import RenameNote
    from logdriven_dagster.execution.runner import Runner
    from logdriven_dagster.model.logs import OpenWindow
    from logdriven_dagster.planning.plan import Plan, PlannedWindow, TablePlan
    from logdriven_dagster.planning.unread import MadeWithout


def plan(
    tables: TablesArgument = None,
    *,
    exclude: ExcludeOption = None,
    every: Annotated[
        bool, typer.Option("--all", help="Show every pending window, not one line per table.")
    ] = False,
    limit: Annotated[
        int | None, typer.Option(min=1, help="The maximum number of windows to show.")
    ] = None,
    project: ProjectOption = None,
    now: NowOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show pending windows, oldest first, with the reason why a window is blocked."""
    from logdriven_dagster.cli.shown.definitions import find_changed_targets, print_single_windows
    from logdriven_dagster.cli.shown.old_windows import convert_source_changes
    from logdriven_dagster.cli.shown.rendering import point_to_errors, print_json_list, print_line
    from logdriven_dagster.config.derived.selection import select_tables
    from logdriven_dagster.config.sql.stretching import find_single_windows
    from logdriven_dagster.execution.definitions.renames import find_rename_notes
    from logdriven_dagster.execution.opening import open_runner
    from logdriven_dagster.planning.unread import iter_made_without

    registered = open_in_force(project)
    loaded = registered.project
    runner = open_runner(loaded, run_log=registered.run_log)
    selected = select_tables(loaded, tables or [], exclude or [])
    found = runner.plan(read_data_clock(loaded, now), selected)
    windows = islice(found.windows(), limit)
    apart = find_single_windows(loaded, {n: each.pending for n, each in found.tables.items()})
    existing = _existing_rows(runner, found)
    changed = find_changed_targets(registered, found.tables)
    old = _find_old_windows(registered, found)
    without = list(iter_made_without(found.tables))
    renames = [note for note in find_rename_notes(loaded, registered.run_log) if not note.applied]
    if as_json:
        notes = _notes(apart, existing, changed, without)
        for note in renames:
            notes.setdefault(note.table, {})["rename"] = asdict(note)
        for name, each in old.items():
            notes.setdefault(name, {})["old_windows"] = each.as_json()
        for name, table in found.tables.items():
            if table.log.changed:
                notes.setdefault(name, {})["source_changes"] = convert_source_changes(table)
        print_json_list(_window_json(each, notes.get(each.table, {})) for each in windows)
        return
    if every or limit:
        _print_windows(windows)
    else:
        _print_tables(found)
    point_to_errors(name for name, table in found.tables.items() if _errors(table))
    print_single_windows(apart)
    for held in existing:
        print_line(f"{', '.join(held.tables)}: {held.text}")
    _print_notes(found, renames, without, changed, old.values())


def _find_old_windows(registered: "Registered", found: "Plan") -> "dict[str, OldWindows]":
    from logdriven_dagster.execution.definitions.old_windows import find_old_windows

    return find_old_windows(registered.run_log, registered.project, found.tables)


def _errors(table: "TablePlan") -> list[str]:
    """Return the errors of the latest attempts at unfinished windows."""
    return [item.error for item in table.log.open if item.error]


def _existing_rows(runner: "Runner", found: "Plan") -> "list[ExistingRows]":
    """Return existing rows in the targets of tables that are about to run for the first time."""
    from logdriven_dagster.runlog.history.logs import find_published_tables

    pending = [name for name, table in found.tables.items() if table.pending]
    with runner.run_log.read() as conn:
        known = find_published_tables(conn, pending)
    new = [name for name in pending if name not in known]
    if not new:
        return []
    from logdriven_dagster.engine.targets.existing_rows import existing_rows

    return list(existing_rows(runner.project, new))


def _notes(
    apart: "Mapping[str, str]",
    existing: "list[ExistingRows]",
    changed: "list[ChangedTarget]",
    without: "list[MadeWithout]",
) -> dict[str, dict[str, object]]:
    """Return the additional `--json` keys of each table's windows."""
    from logdriven_dagster.cli.shown.definitions import convert_changed_target

    notes: dict[str, dict[str, object]] = {name: {"one_by_one": why} for name, why in apart.items()}
    for name in {name for rows in existing for name in rows.tables}:
        texts = [rows.text for rows in existing if name in rows.tables]
        notes.setdefault(name, {})["existing_rows"] = texts
    for each in changed:
        notes.setdefault(each.table, {})["changed_target"] = convert_changed_target(each)
    for name in {made.table for made in without}:
        items = [made.as_json() for made in without if made.table == name]
        notes.setdefault(name, {})["made_without"] = items
    return notes


def _window_json(planned: "PlannedWindow", notes: "Mapping[str, object]") -> dict[str, object]:
    return {
        **notes,
        "table": planned.table,
        "data_range_start": planned.window.bounds[0],
        "data_range_end": planned.window.bounds[1],
        "state": planned.state.value,
        "reason": planned.reason,
    }


def _print_windows(windows: "Iterator[PlannedWindow]") -> None:
    from logdriven_dagster.cli.shown import rendering

    grid = rendering.make_table("table", "window", "state", "reason")
    for planned in windows:
        window, reason = str(planned.window), rendering.format_plain(planned.reason)
        grid.add_row(planned.table, window, rendering.format_state(planned.state.value), reason)
    if not grid.row_count:
        rendering.print_line("Nothing is pending.")
        return
    rendering.make_console().print(grid)


def _print_tables(found: "Plan") -> None:
    from logdriven_dagster.cli.shown import rendering

    grid = rendering.make_table("table", "watermark", "#pending", "next window", "state", "reason")
    for name, table in found.tables.items():
        first = next(found.queue(name), None)
        grid.add_row(
            name,
            _cell(_watermark(table)),
            rendering.format_number(table.pending),
            str(first.window) if first else "–",
            rendering.format_state(first.state.value if first else "up to date"),
            rendering.format_plain(first.reason if first else ""),
        )
    rendering.make_console().print(grid)


def status(
    tables: TablesArgument = None,
    *,
    exclude: ExcludeOption = None,
    project: ProjectOption = None,
    now: NowOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show the state of every table, and differences between files and registry."""
    from logdriven_dagster.cli.commands.audit import convert_rows, print_lost
    from logdriven_dagster.cli.shown import rendering
    from logdriven_dagster.cli.shown.definitions import (
        convert_disagreements,
        find_changed_targets,
        print_disagreements,
    )
    from logdriven_dagster.cli.shown.freshness import (
        convert_freshness,
        format_freshness,
        print_late,
    )
    from logdriven_dagster.cli.shown.old_windows import convert_source_changes
    from logdriven_dagster.config.derived.selection import select_tables
    from logdriven_dagster.execution.definitions.disagreements import Disagreements
    from logdriven_dagster.execution.definitions.removed_tables import find_removed_tables
    from logdriven_dagster.execution.definitions.renames import find_rename_notes
    from logdriven_dagster.execution.opening import open_runner
    from logdriven_dagster.planning.freshness import evaluate_freshness
    from logdriven_dagster.planning.unread import iter_made_without
    from logdriven_dagster.runlog.history.logs import read_latest_statuses
    from logdriven_dagster.runlog.observed import audits

    registered = open_in_force(project)
    loaded = registered.project
    runner = open_runner(loaded, run_log=registered.run_log)
    clock = read_data_clock(loaded, now)
    found = runner.plan(clock, select_tables(loaded, tables or [], exclude or []))
    standing = {
        name: evaluate_freshness(each.table, each.log, clock) for name, each in found.tables.items()
    }
    with runner.run_log.read() as conn:
        latest = read_latest_statuses(conn, found.tables)
        looked = audits.read_source_rows(conn, found.tables)
    disagreements = Disagreements.find(registered)
    removed = [] if tables or exclude else find_removed_tables(registered)
    changed = {each.table: each for each in find_changed_targets(registered, found.tables)}
    old = _find_old_windows(registered, found)
    without = list(iter_made_without(found.tables))
    renames = find_rename_notes(loaded, registered.run_log)
    rows = [
        _status_json(table, latest.get(name), changed.get(name))
        | {"made_without": [made.as_json() for made in without if made.table == name]}
        | {"freshness": convert_freshness(standing[name], clock)}
        | {"old_windows": old[name].as_json() if name in old else None}
        | {"source_changes": convert_source_changes(table)}
        for name, table in found.tables.items()
    ]
    if as_json:
        fields = {"tables": rows, "sources": [convert_rows(each) for each in looked]}
        fields["removed_tables"] = [asdict(each) for each in removed]
        fields["renames"] = [asdict(each) for each in renames]
        rendering.print_json({**fields, "definitions": convert_disagreements(disagreements)})
        return
    # Without a freshness rule, there is no column for it.
    asked = ["fresh"] if any(standing.values()) else []
    grid = rendering.make_table(*_HEAD, *asked)
    for row in rows:
        last, name = row["last_status"], str(row["table"])
        cells = [_cell(row[field]) for field in _COUNTED]
        fresh = [format_freshness(standing[name], clock)] if asked else []
        grid.add_row(*cells, rendering.format_state(str(last or "–")), *fresh)
    rendering.make_console().print(grid)
    print_late(standing)
    _print_notes(found, renames, without, changed.values(), old.values())
    _print_left_out(found)
    rendering.point_to_errors(name for name, table in found.tables.items() if _errors(table))
    print_lost(looked)
    for gone in removed:
        rendering.print_line(gone.text)
    print_disagreements(disagreements)


def _print_notes(
    found: "Plan",
    renames: "Iterable[RenameNote]",
    without: "Iterable[MadeWithout]",
    changed: "Iterable[ChangedTarget]",
    old: "Iterable[OldWindows]",
) -> None:
    """Print the effects of changes, and failed reruns."""
    from logdriven_dagster.cli.shown.definitions import (
        print_changed_targets,
        print_made_without,
        print_parts,
        print_renames,
    )
    from logdriven_dagster.cli.shown.old_windows import (
        find_outdated_windows,
        print_old_windows,
        print_outdated_windows,
    )

    print_parts(found)
    print_renames(note for note in renames if note.table in found.tables)
    print_made_without(without)
    print_changed_targets(changed)
    print_old_windows(old)
    print_outdated_windows(find_outdated_windows(found).values())
    _print_failed_refreshes(found)


def _print_left_out(found: "Plan") -> None:
    """Print the windows that operators have skipped, with their reasons."""
    from logdriven_dagster.cli.shown.rendering import print_line

    for name, table in found.tables.items():
        for item in table.log.left_out:
            print_line(f"{name} {item.window}: {item.reason}")


_HEAD = ("table", "watermark", "#pending", "#failed", "#running", "last status")
_COUNTED = ("table", "watermark", "pending", "failed", "running")


def _status_json(
    table: "TablePlan", last_status: str | None, changed: "ChangedTarget | None"
) -> dict[str, object]:
    from logdriven_dagster.cli.shown.definitions import convert_changed_target

    statuses = [window.status.value for window in table.log.open]
    return {
        "table": table.table.table,
        "watermark": _watermark(table),
        "pending": table.pending,
        "failed": statuses.count("FAILURE"),
        "running": statuses.count("RUNNING"),
        "last_status": last_status,
        "parts": [
            {"data_range_start": part.bounds[0], "data_range_end": part.bounds[1]}
            for part in table.unfinished.parts
        ],
        "skipped": [
            {
                "data_range_start": item.window.bounds[0],
                "data_range_end": item.window.bounds[1],
                "reason": item.reason,
            }
            for item in table.log.left_out
        ],
        "failed_refreshes": [_refresh_json(item) for item in table.log.failed_refreshes],
        "changed_target": None if changed is None else convert_changed_target(changed),
    }


def _refresh_json(failed: "OpenWindow") -> dict[str, object]:
    start, end = failed.window.bounds
    fields = {"job_id": failed.job_id, "status": failed.status.value, "error": failed.error}
    return {"data_range_start": start, "data_range_end": end, **fields}


def _print_failed_refreshes(found: "Plan") -> None:
    """Print failed reruns, which are not pending windows: an operator repeats or ignores them.

    A rerun that died continues with the next run.
    """
    from logdriven_dagster.cli.shown import rendering
    from logdriven_dagster.errors import in_brief
    from logdriven_dagster.model.attempts import Status

    for name, table in found.tables.items():
        for failed in table.log.failed_refreshes:
            error = f": {in_brief(failed.error)}" if failed.error else ""
            message = f"its refresh, job {failed.job_id}, did not succeed{error}"
            fix = "the table is unchanged; run `logdriven refresh` to repeat it"
            rendering.print_line(f"{name} {failed.window}: {message}; {fix}")
        for died in table.log.open:
            if died.stands and died.status is not Status.RUNNING:
                error = f": {in_brief(died.error)}" if died.error else ""
                message = f"its refresh, job {died.job_id}, ended without changes{error}"
                fix = "the table is unchanged; run `logdriven run` to continue it"
                rendering.print_line(f"{name} {died.window}: {message}; {fix}")


def _watermark(table: "TablePlan") -> datetime | str:
    """Return the watermark on the wall clock of the project."""
    reached = table.watermark
    return reached.astimezone(table.table.grid.zone) if isinstance(reached, datetime) else reached


def _cell(value: object) -> str:
    from logdriven_dagster.cli.shown.rendering import format_brief, format_number

    match value:
        case int():
            return format_number(value)
        case datetime():
            return format_brief(value)
        case _:
            return str(value) or "–"


def graph(
    job: Annotated[
        str | None,
        typer.Argument(
            metavar="JOB",
            help="Show the tables of this job with its relations; default: all tables.",
        ),
    ] = None,
    *,
    project: ProjectOption = None,
    as_json: JsonOption = False,
) -> None:
    """Print dependencies as Mermaid text; conditions and delays are separate nodes."""
    from logdriven_dagster.cli.shown.rendering import print_json, print_line
    from logdriven_dagster.config.derived.graph import build_graph, format_mermaid
    from logdriven_dagster.config.derived.relations import apply_job
    from logdriven_dagster.config.derived.selection import select_tables

    loaded = apply_job(open_in_force(project).project, job)
    found = build_graph(loaded.tables, select_tables(loaded, [job] if job else []))
    if not as_json:
        print_line(format_mermaid(found))
        return
    nodes = [{"id": n.id, "kind": n.kind.value, "label": n.label} for n in found.nodes]
    edges = [{"from": e.start, "to": e.end, "waits": e.waits} for e in found.edges]
    print_json({"nodes": nodes, "edges": edges})
