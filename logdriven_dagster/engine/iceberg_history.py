"""What the snapshots of an Iceberg table say about who published what."""

from collections.abc import Collection, Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from logdriven_dagster.engine.staging import StagedRows, Stamp, is_newer
from logdriven_dagster.model.windows import range_text

if TYPE_CHECKING:
    from pyiceberg.table import Table
    from pyiceberg.table.snapshots import Snapshot


def identity(stamp: Stamp) -> dict[str, str]:
    """The properties of every snapshot of ours: whose it is."""
    return {
        "job_id": str(stamp.job_id),
        "table": stamp.table,
        "step": stamp.step_id,
        "data_range_start": range_text(stamp.window.start),
        "data_range_end": range_text(stamp.window.end),
        "fencing_token": str(stamp.fencing_token),
    }


def origin(staged: StagedRows) -> dict[str, str]:
    """The properties that name published rows, whoever staged and whoever published them."""
    return {"staging": Path(staged.location).name, "staged_by": str(staged.staged_by)}


def snapshot_of(table: "Table", staged: StagedRows) -> str | None:
    """The snapshot that published these rows, if there is one."""
    wanted = origin(staged).items()
    for snapshot, properties in _newest_first(table):
        if wanted <= properties.items():
            return str(snapshot.snapshot_id)
    return None


def refuse_superseded(table: "Table", stamp: Stamp) -> None:
    """AttemptLostError if a newer attempt at the stamp's window has been here."""
    mine = {name: identity(stamp)[name] for name in ("table", "step", "data_range_start")}
    for _, properties in _newest_first(table):
        token = int(properties.get("fencing_token", 0))
        if token > stamp.fencing_token and mine.items() <= properties.items():
            raise stamp.superseded(token)


def is_out_of_date(table: "Table", stamp: Stamp) -> bool:
    """Whether the table as a whole is what a newer window made of it."""
    for _, properties in _newest_first(table):
        if "staging" in properties:  # not a fence
            return is_newer(properties["data_range_start"], stamp.window)
    return False


def indispensable(table: "Table") -> set[int]:
    """The snapshots that no history can do without: branches, tags, the newest publication.

    The last one says how new a table is that is replaced as a whole; see `is_out_of_date`.
    """
    named = {reference.snapshot_id for reference in table.metadata.refs.values()}
    published = (s.snapshot_id for s, properties in _newest_first(table) if "staging" in properties)
    return named | set(islice(published, 1))


def of_windows(table: "Table", windows: Collection[tuple[str, str]]) -> set[int]:
    """The snapshots of windows, each given by its table and its `data_range_start`.

    Whoever goes on with an attempt finds there what it published, and which token is the newest.
    """
    return {
        snapshot.snapshot_id
        for snapshot, properties in _newest_first(table)
        if (properties.get("table"), properties.get("data_range_start")) in windows
    }


def _newest_first(table: "Table") -> "Iterator[tuple[Snapshot, Mapping[str, str]]]":
    for snapshot in reversed(table.metadata.snapshots):
        yield snapshot, snapshot.summary.additional_properties if snapshot.summary else {}
