"""Output of windows that older versions of their tables, or of source files, made."""

from collections.abc import Iterable
from typing import Any

from logdriven_dagster.cli.shown.rendering import print_line
from logdriven_dagster.execution.definitions.old_windows import OldWindows
from logdriven_dagster.execution.source_files.changes import OutdatedWindows, list_outdated_windows
from logdriven_dagster.planning.plan import Plan, TablePlan


def print_old_windows(found: Iterable[OldWindows]) -> None:
    """Print a sentence for each table with windows by older versions."""
    for old in found:
        print_line(old.text)


def find_outdated_windows(found: Plan) -> dict[str, OutdatedWindows]:
    """Return the tables of a plan with windows whose source files changed after they ran."""
    return list_outdated_windows((each.table, each.log) for each in found.tables.values())


def convert_source_changes(table: TablePlan) -> list[dict[str, Any]]:
    """Return `source_changes` of a planned table in JSON."""
    return OutdatedWindows.build(table.table, table.log).as_json()


def print_outdated_windows(found: Iterable[OutdatedWindows]) -> None:
    """Print a sentence for each table with windows whose source files changed after they ran."""
    for outdated in found:
        print_line(outdated.text)
