"""The first window of a Delta table that other programs filled."""

from logdriven_dagster.engine.queries.schemas import WINDOW_START
from logdriven_dagster.engine.targets.first_contact import leaves_existing_rows, refusal
from logdriven_dagster.plugins.delta.format.tables import DataFile, Snapshot
from logdriven_dagster.plugins.delta.models import DeltaTarget
from logdriven_dagster.plugins.delta.target.history import was_published_to


def find_replaced_files(snapshot: Snapshot, target: DeltaTarget) -> tuple[DataFile, ...]:
    """Return the files that the first window of a table replaces; TerminalStepError if refused."""
    others = unknown_files(snapshot) if leaves_existing_rows(target) else ()
    if others and target.existing_rows == "refuse":
        raise refusal(snapshot.name)
    return others


def unknown_files(snapshot: Snapshot) -> tuple[DataFile, ...]:
    """Return all files if no window wrote any of their rows; otherwise none.

    Engines that rewrite files may leave out statistics. The log then shows whether a window was
    ever published.
    """
    if snapshot.column_name(WINDOW_START) is not None:
        bounds, nulls = snapshot.bounds(WINDOW_START), snapshot.nulls(WINDOW_START)
        if any(least is not None for least, _ in bounds):
            return ()
        if None in nulls and was_published_to(snapshot):
            return ()
    return snapshot.files
