"""Publication history of windows, read from the log of a Delta table.

The log holds two transactions per window: the token of its newest attempt, and the token of the
attempt whose rows are published. Checkpoints keep them when old commits are cleaned up. Details
that checkpoints do not keep, such as the counts of an upsert, are stored in the commit itself.
"""

import json
from collections.abc import Mapping, Sequence
from datetime import datetime, timezone
from typing import Any

from logdriven_dagster.engine.storage.locations import Folder, name_of
from logdriven_dagster.engine.targets.contents import SnapshotHistory, TableSnapshot
from logdriven_dagster.engine.targets.store import StagedRows
from logdriven_dagster.model.runs import Merged, WindowRun
from logdriven_dagster.plugins.delta.format.tables import Snapshot

KEPT = "logdriven"
"""The key of our metadata in commits, and the prefix of our transaction names."""

_NEWEST = f"{KEPT} newest start"
"""Transaction: the start of the window that was published last, in seconds."""

_LOOKED_BACK = 200
"""The number of newest commits that are searched for a publication."""


def fences(snapshot: Snapshot, runs: Sequence[WindowRun]) -> dict[str, int]:
    """Return the transactions that reject older attempts at these windows."""
    tokens = {_window(run): run.fencing_token for run in runs}
    newest = max(_newest_token(snapshot, runs[0]), *tokens.values())
    return {**tokens, _step(runs[0]): newest}


def publications(snapshot: Snapshot, staged: Sequence[StagedRows]) -> dict[str, int]:
    """Return the transactions of a commit that publishes the rows of these windows."""
    runs = [rows.run for rows in staged]
    published = {_rows(rows.run): rows.staged_by for rows in staged}
    return fences(snapshot, runs) | published | {_NEWEST: max(_seconds(run) for run in runs)}


def _newest_token(snapshot: Snapshot, run: WindowRun) -> int:
    """Return the greatest token of any window of a table's step, 0 before the first window."""
    return snapshot.transaction(_step(run)) or 0


def refuse_superseded(snapshot: Snapshot, runs: Sequence[WindowRun]) -> None:
    """Raise AttemptLostError if a newer attempt has fenced or published one of the windows."""
    newest = _newest_token(snapshot, runs[0])
    for run in runs:
        if run.fencing_token < newest:  # otherwise no window of the step has a newer one
            token = snapshot.transaction(_window(run)) or 0
            if token > run.fencing_token:
                raise run.build_superseded_error(token)


def list_unpublished(snapshot: Snapshot, staged: Sequence[StagedRows]) -> list[StagedRows]:
    """Return the staged rows that no commit has published."""
    newest = _newest_token(snapshot, staged[0].run)
    return [
        rows
        for rows in staged
        if rows.staged_by > newest or snapshot.transaction(_rows(rows.run)) != rows.staged_by
    ]


def is_out_of_date(snapshot: Snapshot, run: WindowRun) -> bool:
    """Return True if a newer window has replaced the table as a whole."""
    newest = snapshot.transaction(_NEWEST)
    return newest is not None and newest >= run.window.span[1]


def was_published_to(snapshot: Snapshot) -> bool:
    """Return True if a window was ever published to the table."""
    return snapshot.transaction(_NEWEST) is not None


def describe_commit(staged: Sequence[StagedRows], merged: Merged | None) -> dict[str, Any]:
    """Return the metadata of a commit, for users and for later publications of the same rows."""
    counts = {"inserted": merged.inserted, "updated": merged.updated} if merged else {}
    return {KEPT: [_identity(rows) | counts for rows in staged]}


def commit_of(snapshot: Snapshot, folder: Folder, staged: StagedRows) -> Mapping[str, Any]:
    """Return the metadata of the commit that published the rows, with its `version`.

    Empty if the commit is gone. The search starts at the newest commit. It runs only when rows are
    published again.
    """
    mine = _identity(staged)
    for version in range(snapshot.version, max(-1, snapshot.version - _LOOKED_BACK), -1):
        try:
            text = folder.storage.read(f"{folder.location}/_delta_log/{version:020}.json")
        except FileNotFoundError:
            break
        for said in _read_metadata(text):
            if all(said.get(key) == mine[key] for key in ("table", "step", "staging", "staged_by")):
                return {**said, "version": version}
    return {}


def list_snapshots(snapshot: Snapshot) -> SnapshotHistory:
    """Return the versions of the table whose commits its log still has."""
    commits = sorted(snapshot.table.history(), key=lambda commit: int(commit["version"]))
    found = tuple(
        TableSnapshot(
            str(commit["version"]),
            datetime.fromtimestamp(commit.get("timestamp", 0) / 1000, timezone.utc),
            tuple(each["job_id"] for each in commit.get(KEPT, ())),
        )
        for commit in commits
    )
    return SnapshotHistory(found)


def get_merge_counts(said: Mapping[str, Any]) -> Merged | None:
    """Return the counts of the upsert that a commit published; None if the commit has none."""
    return Merged(said["inserted"], said["updated"]) if "inserted" in said else None


def _read_metadata(commit: bytes) -> list[dict[str, Any]]:
    """Return our metadata from the actions of a commit."""
    for action in map(json.loads, commit.splitlines()):
        if "commitInfo" in action:
            said: list[dict[str, Any]] = action["commitInfo"].get(KEPT, [])
            return said
    return []


def _identity(rows: StagedRows) -> dict[str, Any]:
    run = rows.run
    return {
        "job_id": run.job_id,
        "table": run.table,
        "step": run.step_id,
        "data_range_start": run.window.start_text,
        "data_range_end": run.window.end_text,
        "fencing_token": run.fencing_token,
        "staging": name_of(rows.location),
        "staged_by": rows.staged_by,
    }


def _step(run: WindowRun) -> str:
    return f"{KEPT} token {run.table} {run.step_id}"


def _window(run: WindowRun) -> str:
    return f"{_step(run)} {run.window.start_text}"


def _rows(run: WindowRun) -> str:
    return f"{KEPT} rows {run.table} {run.step_id} {run.window.start_text}"


def _seconds(run: WindowRun) -> int:
    return int(run.window.start.timestamp())
