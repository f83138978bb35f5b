"""Features of Delta's protocol that cannot be read or written here; they are refused by name.

A feature that a table lists but does not use is accepted if delta-rs supports it, too.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from logdriven_dagster.errors import TerminalStepError
from logdriven_dagster.plugins.delta.format.tables import Snapshot

_READABLE = frozenset(
    {
        *("columnMapping", "deletionVectors", "timestampNtz", "typeWidening"),
        *("typeWidening-preview", "v2Checkpoint", "vacuumProtocolCheck"),
        *("variantType", "variantType-preview"),
    }
)
"""Readable features; VARIANT is refused per column."""

_WRITABLE = frozenset(
    {
        *("appendOnly", "invariants", "checkConstraints", "changeDataFeed", "generatedColumns"),
        *("columnMapping", "deletionVectors", "timestampNtz"),
    }
)
"""Writable features, which each commit respects; delta-rs refuses all others, used or not."""

_OF_COLUMNS = {
    "delta.identity.start": "an identity column",
    "CURRENT_DEFAULT": "a default",
}
"""Key of a column's metadata → the feature that it declares."""

_OF_PARTS = {
    "delta.invariants": "a nested invariant",
    "delta.generationExpression": "a nested generated column",
}
"""Key of a nested column's metadata → the feature that it declares."""

_OF_NULLS = ("nullable", "containsNull", "valueContainsNull")
"""Keys that declare whether a column, or a part of it, may be NULL."""


def refuse_unreadable(snapshot: Snapshot) -> None:
    """Raise TerminalStepError, which names them, if a table has features that cannot be read."""
    listed = snapshot.table.protocol().reader_features or ()
    obstacles = [name for name in listed if name not in _READABLE]
    obstacles += _unknown_mapping(snapshot)
    _refuse(snapshot, obstacles, "be read")


def refuse_unwritable(snapshot: Snapshot) -> None:
    """Raise TerminalStepError, which names them, if a table has features that cannot be written."""
    _refuse(snapshot, list(dict.fromkeys(_unwritable(snapshot))), "be written to")


def _refuse(snapshot: Snapshot, obstacles: list[str], what: str) -> None:
    if obstacles:
        raise TerminalStepError(
            f"the Delta table {snapshot.name} cannot {what} here, since it uses "
            f"{', '.join(obstacles)}; turn that off, or write another `path`"
        )


def _unknown_mapping(snapshot: Snapshot) -> Iterator[str]:
    if snapshot.column_mapping not in ("none", "name", "id"):
        yield f"column mapping by {snapshot.column_mapping}"


def _unwritable(snapshot: Snapshot) -> Iterator[str]:
    protocol = snapshot.table.protocol()
    listed = {*(protocol.writer_features or ()), *(protocol.reader_features or ())}
    yield from sorted(listed - _WRITABLE)
    yield from _unknown_mapping(snapshot)
    if snapshot.partition_columns:
        yield f"partitions by {', '.join(snapshot.partition_columns)}"
    yield from _of_columns(snapshot.fields)


def _of_columns(fields: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    for field in fields:
        column, parts = json.dumps(field), json.dumps(field["type"])
        for text, known in ((column, _OF_COLUMNS), (parts, _OF_PARTS)):
            yield from (
                f"{what} (column {field['name']})" for key, what in known.items() if key in text
            )
        if any(f'"{key}": false' in parts for key in _OF_NULLS):
            yield f"a nested NOT NULL (column {field['name']})"


def lists_deletion_vectors(snapshot: Snapshot) -> bool:
    """Return whether the table supports deletion vectors, which delete rows without a rewrite."""
    return "deletionVectors" in (snapshot.table.protocol().reader_features or ())
