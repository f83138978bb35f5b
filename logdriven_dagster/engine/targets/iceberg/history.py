"""Publication history of windows, read from the snapshots of an Iceberg table."""

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from datetime import datetime, timezone
from itertools import islice
from typing import TYPE_CHECKING

from logdriven_dagster.engine.iceberg.names import name_of_table
from logdriven_dagster.engine.storage.staging import staging_name
from logdriven_dagster.engine.targets.contents import SnapshotHistory, TableSnapshot
from logdriven_dagster.engine.targets.store import StagedRows, is_newer
from logdriven_dagster.errors import TerminalStepError
from logdriven_dagster.model.runs import Merged, WindowRun

if TYPE_CHECKING:
    from pyiceberg.table import Table
    from pyiceberg.table.snapshots import Snapshot

_WINDOWS = "windows"
"""The property of a snapshot of several windows: the properties of each window, as JSON."""


def identity(run: WindowRun) -> dict[str, str]:
    """Return the properties that identify the attempt behind a snapshot."""
    return {
        "job_id": str(run.job_id),
        "table": run.table,
        "step": run.step_id,
        "data_range_start": run.window.start_text,
        "data_range_end": run.window.end_text,
        "fencing_token": str(run.fencing_token),
    }


def identities(runs: Sequence[WindowRun]) -> dict[str, str]:
    """Return the properties of a snapshot that belongs to one window or to several."""
    if len(runs) == 1:
        return identity(runs[0])
    return _of_several([identity(run) for run in runs])


def publication(staged: Sequence[StagedRows], merged: Merged | None = None) -> dict[str, str]:
    """Return the properties of a snapshot that publishes the rows of one window or of several."""
    each = [identity(rows.run) | origin(rows) for rows in staged]
    counts = {"inserted": str(merged.inserted), "updated": str(merged.updated)} if merged else {}
    return each[0] | counts if len(each) == 1 else _of_several(each)


def _of_several(each: Sequence[Mapping[str, str]]) -> dict[str, str]:
    return {"table": each[0]["table"], "step": each[0]["step"], _WINDOWS: json.dumps(each)}


def origin(staged: StagedRows) -> dict[str, str]:
    """Return the properties that identify published rows, independent of the attempt."""
    return {"staging": staging_name(staged.location), "staged_by": str(staged.staged_by)}


def snapshots_of(table: "Table", staged: Sequence[StagedRows]) -> list[str | None]:
    """Return the snapshot that published the rows of each window; None where there is none."""
    found: dict[tuple[str | None, str | None], str] = {}
    for snapshot, properties in _newest_first(table):
        named = properties.get("staging"), properties.get("staged_by")
        found.setdefault(named, str(snapshot.snapshot_id))
    wanted = [origin(rows) for rows in staged]
    return [found.get((each["staging"], each["staged_by"])) for each in wanted]


def get_merge_counts(table: "Table", snapshot_id: str | None) -> Merged | None:
    """Return the counts of the upsert that a snapshot published; None for other modes."""
    snapshot = table.snapshot_by_id(int(snapshot_id)) if snapshot_id else None
    if snapshot is None or snapshot.summary is None:
        return None
    summary = snapshot.summary.additional_properties
    if "inserted" not in summary:
        return None
    return Merged(int(summary["inserted"]), int(summary["updated"]))


def refuse_superseded(table: "Table", runs: Sequence[WindowRun]) -> None:
    """Raise AttemptLostError if a newer attempt has fenced or published one of the windows."""
    names = ("table", "step", "data_range_start")
    mine = {tuple(identity(run)[name] for name in names): run for run in runs}
    for _, properties in _newest_first(table):
        run = mine.get(tuple(properties.get(name, "") for name in names))
        token = int(properties.get("fencing_token", 0))
        if run is not None and token > run.fencing_token:
            raise run.build_superseded_error(token)


def is_out_of_date(table: "Table", run: WindowRun) -> bool:
    """Return True if a newer window has replaced the table as a whole."""
    for _, properties in _newest_first(table):
        if "staging" in properties:  # not a fence
            return is_newer(properties["data_range_start"], run.window)
    return False


def indispensable(table: "Table") -> set[int]:
    """Return the snapshots to keep: those of branches and tags, and the newest publication.

    The newest publication dates the contents of a table that is replaced as a whole; see
    `is_out_of_date`.
    """
    named = {reference.snapshot_id for reference in table.metadata.refs.values()}
    published = (s.snapshot_id for s, properties in _newest_first(table) if "staging" in properties)
    return named | set(islice(published, 1))


def of_windows(table: "Table", windows: Collection[tuple[str, str]]) -> set[int]:
    """Return the snapshots of windows, each given by its table and its `data_range_start`.

    A runner that takes an attempt over finds there its publications and the newest token.
    """
    return {
        snapshot.snapshot_id
        for snapshot, properties in _newest_first(table)
        if (properties.get("table"), properties.get("data_range_start")) in windows
    }


def list_snapshots(table: "Table") -> SnapshotHistory:
    """Return the snapshots that led to the current one, and the other ones."""
    found, snapshot = list["Snapshot"](), table.current_snapshot()
    while snapshot is not None:
        found.insert(0, snapshot)
        parent = snapshot.parent_snapshot_id
        snapshot = None if parent is None else table.snapshot_by_id(parent)
    known = {each.snapshot_id for each in found}
    others = [each for each in table.metadata.snapshots if each.snapshot_id not in known]
    job_ids = dict[int, list[int]]()
    for each, properties in _newest_first(table):
        if "job_id" in properties:
            job_ids.setdefault(each.snapshot_id, []).append(int(properties["job_id"]))

    def describe(each: "Snapshot") -> TableSnapshot:
        time = datetime.fromtimestamp(each.timestamp_ms / 1000, timezone.utc)
        return TableSnapshot(str(each.snapshot_id), time, tuple(job_ids.get(each.snapshot_id, ())))

    return SnapshotHistory(tuple(map(describe, found)), tuple(map(describe, others)))


def rewind_table(table: "Table", snapshot: str) -> "Table":
    """Return the table as it was at a snapshot, with its schema, for reading only.

    Raises TerminalStepError if the snapshot has expired.
    """
    from pyiceberg.table import Table

    found = table.snapshot_by_id(int(snapshot)) if snapshot.isdigit() else None
    if found is None:
        raise TerminalStepError(
            f"{name_of_table(table)}: snapshot {snapshot} has expired; choose a newer one"
        )
    known = {each.schema_id for each in table.metadata.schemas}
    schema = found.schema_id if found.schema_id in known else table.metadata.current_schema_id
    then = {"current_snapshot_id": found.snapshot_id, "current_schema_id": schema}
    metadata = table.metadata.model_copy(update=then)
    return Table(
        table.name(), metadata, table.metadata_location, table.io, table.catalog, table.config
    )


def _newest_first(table: "Table") -> "Iterator[tuple[Snapshot, Mapping[str, str]]]":
    """Yield each snapshot with the properties of each of its windows, newest first."""
    for snapshot in reversed(table.metadata.snapshots):
        properties = snapshot.summary.additional_properties if snapshot.summary else {}
        if _WINDOWS not in properties:
            yield snapshot, properties
            continue
        for each in reversed(json.loads(properties[_WINDOWS])):
            yield snapshot, each
