"""Output of an import: its files, remarks, and the point where each table continues."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from collections.abc import Callable

    from logdriven_dagster.config.project import Project
    from logdriven_dagster.plugins.importers.drafts import Remark, Translation
    from logdriven_dagster.plugins.importers.taking_over import Progress, TakenOver
    from logdriven_dagster.plugins.importers.writing import Writing


@dataclass(frozen=True, slots=True)
class Manner:
    """The options for writing and reporting an import."""

    overwrite: bool
    dry_run: bool
    as_json: bool


def bring_in(
    project: "Project",
    translation: "Translation",
    how: Manner,
    old_log: "Callable[[Project], list[Progress]] | None" = None,
) -> None:
    """Write the files of an import and print its report.

    Args:
        translation: The drafts and remarks.
        how: The options of the command.
        old_log: Reads the old system's progress with the tables.
    """
    from logdriven_dagster.cli.shown.rendering import print_line
    from logdriven_dagster.plugins.importers.writing import prepare

    writing = prepare(project, translation)
    if not how.overwrite and not how.dry_run:
        writing.refuse_differing()
    taken: list[TakenOver] = []
    if not how.dry_run:
        writing.write()
        if old_log is not None:
            taken = _take_over(project, translation, old_log)
    if how.as_json:
        _print_json(writing, translation, taken)
    else:
        _print(writing, translation, verb="would be written" if how.dry_run else "written")
        for each in taken:
            print_line(f"{each.table} continues at {each.goes_on}, according to {each.place}")
    if translation.untranslated:
        raise typer.Exit(1)


def _take_over(
    project: "Project",
    translation: "Translation",
    old_log: "Callable[[Project], list[Progress]]",
) -> "list[TakenOver]":
    from logdriven_dagster.config.loading import load_project
    from logdriven_dagster.execution.definitions.homes import open_run_log, settle
    from logdriven_dagster.execution.owners import current_owner
    from logdriven_dagster.plugins.importers.taking_over import Takeover

    written = load_project(project.root)
    takeover = Takeover(written, current_owner(), translation)
    run_log = open_run_log(written)
    settle(written, run_log, written.tables.values())
    takeover.record(old_log(written), run_log)
    return takeover.taken


def _print(writing: "Writing", translation: "Translation", *, verb: str) -> None:
    from logdriven_dagster.cli.shown.rendering import print_line

    for path in writing.changed:
        differs = ", which already exists with other contents" if path in writing.differing else ""
        print_line(f"{verb}  {path}{differs}")
    if writing.unchanged:
        print_line(f"unchanged  {len(writing.unchanged)} files")
    _list("To review", translation.notes)
    _list("Not translated", translation.untranslated)
    if not writing.texts and not translation.untranslated:
        print_line("No tables found.")


def _list(title: str, remarks: "list[Remark]") -> None:
    from logdriven_dagster.cli.shown.rendering import (
        format_plain,
        make_console,
        make_table,
        print_line,
    )

    if not remarks:
        return
    print_line(f"\n{title} ({len(remarks)}):")
    grid = make_table("where", "what", "reason")
    for remark in remarks:
        grid.add_row(
            format_plain(remark.place), format_plain(remark.item), format_plain(remark.reason)
        )
    make_console().print(grid)


def _print_json(writing: "Writing", translation: "Translation", taken: "list[TakenOver]") -> None:
    from dataclasses import asdict

    from logdriven_dagster.cli.shown.rendering import print_json

    print_json(
        {
            "written": [str(path) for path in writing.changed],
            "unchanged": [str(path) for path in writing.unchanged],
            "differing": [str(path) for path in writing.differing],
            "notes": [asdict(remark) for remark in translation.notes],
            "untranslated": [asdict(remark) for remark in translation.untranslated],
            "taken_over": [asdict(each) for each in taken],
        }
    )
