"""Targets that keep the versions of rows, from dbt's snapshots."""

import re
from collections.abc import Iterable

from logdriven_dagster.plugins.importers.dbt.manifest import Node
from logdriven_dagster.plugins.importers.dbt.models import Schedule, Shape, list_columns
from logdriven_dagster.plugins.importers.drafts import UntranslatableError, Values

_VALIDITY = ("dbt_valid_from", "dbt_valid_to")
_ABSENT = ("dbt_scd_id", "dbt_updated_at")
"""Columns that dbt adds to a snapshot, and mode history does not."""


def get_history(node: Node, schedule: Schedule) -> Shape:
    """Return windows and target of a snapshot, which reads all rows of its query in each run.

    Raises UntranslatableError for a snapshot whose versions would have another meaning.
    """
    config = node.config
    if end := config.get("dbt_valid_to_current"):
        raise UntranslatableError(
            f"dbt_valid_to_current: {end} has no counterpart; the current version has NULL there"
        )
    key = list_columns(config, "unique_key", "a snapshot")
    target: Values = {"type": "iceberg", "mode": "history", "key": key}
    target["snapshot"] = _closes_missing_keys(node)
    updated_at, review = config.get("updated_at"), ""
    absent = " and ".join(_rename(node, name) for name in _ABSENT)
    notes = [f"mode history adds no columns {absent}"]
    match config.get("strategy"):
        case "check" if updated_at:
            raise UntranslatableError(
                f"its versions begin at {updated_at}, and those of mode history at the start of "
                "the window; remove updated_at"
            )
        case "check":
            target |= _track(node, key)
            notes.append(
                "dbt's versions begin at the time of its run, and these at the start of the window"
            )
        case "timestamp":
            target["track"] = list_columns(config, "updated_at", "strategy timestamp")
            if _lower(target["track"]) & _lower(key):
                raise UntranslatableError(f"{updated_at} is a column of unique_key")
            review = (
                f"dbt's versions begin at {updated_at}, and only with a later one; these begin at "
                f"the start of the window, with any other {updated_at}; review it"
            )
        case other:
            raise UntranslatableError(f"strategy: {other} has no counterpart")
    since, until = (_rename(node, name) for name in _VALIDITY)
    target |= {"valid_from": since, "valid_to": until}
    return Shape(schedule.snapshots, target, "never", tuple(notes), review)


def refuse_absent_columns(text: str, read: Iterable[Node]) -> None:
    """Raise UntranslatableError if a text names a column that only dbt adds to the nodes read."""
    _refuse(text, read, _ABSENT, "mode history does not add to {}; use its key and {}")


def refuse_added_columns(text: str, tested: Node) -> None:
    """Raise UntranslatableError if a test names a column that a snapshot's query lacks."""
    _refuse(text, [tested], _ABSENT, "mode history does not add to {}; use its key and {}")
    _refuse(text, [tested], _VALIDITY, "is added to {} after its rules; test it in a reader")


def _refuse(text: str, nodes: Iterable[Node], names: Iterable[str], reason: str) -> None:
    words = _lower(re.findall(r"\w+", text))
    for node in nodes:
        for name in names:
            if node.kind == "snapshot" and _rename(node, name).lower() in words:
                problem = reason.format(node.name, _rename(node, "dbt_valid_from"))
                raise UntranslatableError(f"it names {_rename(node, name)}, which {problem}")


def _closes_missing_keys(node: Node) -> bool:
    """Return True if a key that the query no longer returns is closed."""
    match node.config.get("hard_deletes"):
        case "invalidate":
            return True
        case None | "ignore":
            return bool(node.config.get("invalidate_hard_deletes"))
        case other:
            raise UntranslatableError(
                f"hard_deletes: {other} has no counterpart; mode history adds no row for a "
                "deleted key"
            )


def _track(node: Node, key: list[str]) -> Values:
    """Return the columns whose changes start a version, if these are not all columns."""
    if node.config.get("check_cols") == "all":
        return {}
    checked = list_columns(node.config, "check_cols", "strategy check")
    tracked = [name for name in checked if name.lower() not in _lower(key)]
    if not tracked:
        raise UntranslatableError("check_cols has only columns of unique_key, which never change")
    return {"track": tracked}


def _rename(node: Node, name: str) -> str:
    """Return the name of a column that dbt adds."""
    return str((node.config.get("snapshot_meta_column_names") or {}).get(name) or name)


def _lower(names: Iterable[str]) -> set[str]:
    return {name.lower() for name in names}
