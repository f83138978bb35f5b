"""What the log of a Delta table says about who published what.

Each window has two transactions there: the token of its newest attempt, and the token of the one
whose rows are published. Checkpoints keep them when old commits are cleaned away; what they do not
keep, such as what an upsert counted, stands in the commit beside them.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from logdriven_dagster.engine.delta.tables import Snapshot
from logdriven_dagster.engine.storage.locations import Folder, name_of
from logdriven_dagster.engine.targets.store import StagedRows
from logdriven_dagster.model.runs import Merged, WindowRun

KEPT = "logdriven"
"""The name of what commits say of themselves, and how names of transactions begin."""

_NEWEST = f"{KEPT} newest start"
"""Transaction: where the window starts that was published last, in seconds."""

_LOOKED_BACK = 200
"""How many of the newest commits are read to find what one of them says of a publication."""


def fences(snapshot: Snapshot, runs: Sequence[WindowRun]) -> dict[str, int]:
    """Return the transactions that refuse older attempts at these windows."""
    tokens = {_window(run): run.fencing_token for run in runs}
    newest = max(_newest_token(snapshot, runs[0]), *tokens.values())
    return {**tokens, _step(runs[0]): newest}


def publications(snapshot: Snapshot, staged: Sequence[StagedRows]) -> dict[str, int]:
    """Return the transactions of a commit that publishes the rows of these windows."""
    runs = [rows.run for rows in staged]
    published = {_rows(rows.run): rows.staged_by for rows in staged}
    return fences(snapshot, runs) | published | {_NEWEST: max(_seconds(run) for run in runs)}


def _newest_token(snapshot: Snapshot, run: WindowRun) -> int:
    """The greatest token of any window of a table's step, 0 before the first one."""
    return snapshot.transaction(_step(run)) or 0


def refuse_superseded(snapshot: Snapshot, runs: Sequence[WindowRun]) -> None:
    """AttemptLostError if a newer attempt at one of the windows has been here."""
    newest = _newest_token(snapshot, runs[0])
    for run in runs:
        if run.fencing_token < newest:  # otherwise no window of the step has a newer one
            token = snapshot.transaction(_window(run)) or 0
            if token > run.fencing_token:
                raise run.superseded(token)


def unpublished(snapshot: Snapshot, staged: Sequence[StagedRows]) -> list[StagedRows]:
    """Return those whose rows no commit has published."""
    newest = _newest_token(snapshot, staged[0].run)
    return [
        rows
        for rows in staged
        if rows.staged_by > newest or snapshot.transaction(_rows(rows.run)) != rows.staged_by
    ]


def is_out_of_date(snapshot: Snapshot, run: WindowRun) -> bool:
    """Whether the table as a whole is what a newer window made of it."""
    newest = snapshot.transaction(_NEWEST)
    return newest is not None and newest >= run.window.span[1]


def was_published_to(snapshot: Snapshot) -> bool:
    """Whether a window has ever been published to the table."""
    return snapshot.transaction(_NEWEST) is not None


def described(staged: Sequence[StagedRows], merged: Merged | None) -> dict[str, Any]:
    """Return what a commit says of itself, for people and for whoever publishes once more."""
    counts = {"inserted": merged.inserted, "updated": merged.updated} if merged else {}
    return {KEPT: [_identity(rows) | counts for rows in staged]}


def commit_of(snapshot: Snapshot, folder: Folder, staged: StagedRows) -> Mapping[str, Any]:
    """What the commit that published the rows says, with its `version`; empty: it is gone.

    The newest commits are looked at first; it is asked only by who publishes once more.
    """
    mine = _identity(staged)
    for version in range(snapshot.version, max(-1, snapshot.version - _LOOKED_BACK), -1):
        try:
            text = folder.storage.read(f"{folder.location}/_delta_log/{version:020}.json")
        except FileNotFoundError:
            break
        for said in _said(text):
            if all(said.get(key) == mine[key] for key in ("table", "step", "staging", "staged_by")):
                return {**said, "version": version}
    return {}


def merged_by(said: Mapping[str, Any]) -> Merged | None:
    """What the upsert did that a commit published; None if it does not say so."""
    return Merged(said["inserted"], said["updated"]) if "inserted" in said else None


def _said(commit: bytes) -> list[dict[str, Any]]:
    """What a commit says of itself, as one of its actions."""
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
