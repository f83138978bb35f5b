"""Commits to Delta tables: replace files in one compare-and-swap, or change nothing."""

import time
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NoReturn

from logdriven_dagster.errors import TerminalStepError
from logdriven_dagster.plugins.delta.format.schema import delta_fields, schema_text, spark_schema
from logdriven_dagster.plugins.delta.format.tables import (
    DataFile,
    Snapshot,
    delta_rs,
    open_table,
    place_of,
)
from logdriven_dagster.plugins.delta.target.statistics import Statistics

PROPERTIES = {
    # Collect statistics of all columns: the window column is the last one.
    "delta.dataSkippingNumIndexedCols": "-1",
    # Opening the table reads all commits since the last checkpoint.
    "delta.checkpointInterval": "10",
    # Otherwise the two transactions of each window would be kept forever.
    "delta.setTransactionRetentionDuration": "interval 365 days",
}
"""Properties of every new table."""


def create_table(location: str, properties: Mapping[str, str], schema: Any) -> None:
    """Create an empty table, unless another process has just created it."""
    deltalake = delta_rs()
    wanted = deltalake.Schema.from_json(schema_text(delta_fields(schema)))
    try:
        deltalake.DeltaTable.create(
            **place_of(location, properties),
            schema=wanted,
            mode="ignore",
            configuration=PROPERTIES,
            commit_properties=_once({}, {}),
        )
    except deltalake.exceptions.CommitFailedError:
        if open_table(location, properties) is None:
            raise


def commit_files(
    snapshot: Snapshot,
    removed: Iterable[DataFile],
    added: Mapping[str, Statistics],
    transactions: Mapping[str, int],
    said: Mapping[str, Any],
    *,
    changes_rows: bool = True,
) -> bool:
    """Replace Parquet files with others; return False if another writer was faster.

    The commit gets the version number after the snapshot's, or fails.

    Args:
        snapshot: The version of the table on which the change is based.
        removed: The files to remove.
        added: The statistics of each new file, by location.
        transactions: The transactions to record, by name.
        changes_rows: False if the new files hold the same rows, as in compaction.

    Raises:
        TerminalStepError: The table refuses the commit.
    """
    from deltalake.exceptions import CommitFailedError
    from deltalake.transaction import AddAction, RemoveAction

    now = int(time.time() * 1000)
    actions: list[Any] = [
        RemoveAction(file.path, changes_rows, now, file.bytes, {}) for file in removed
    ]
    for path, statistics in added.items():
        inside = path.removeprefix(f"{snapshot.location}/")
        actions.append(AddAction(inside, statistics.bytes, {}, now, changes_rows, statistics.text))
    try:
        snapshot.table.create_write_transaction(
            actions,
            mode="append",
            schema=snapshot.table.schema(),
            commit_properties=_once(transactions, said),
        )
    except (CommitFailedError, OSError) as error:
        _refuse_unless_lost(snapshot, error)
        return False
    return True


def evolve(snapshot: Snapshot, schema: Any) -> bool:
    """Add the new files' columns and fields to the table; False if another writer was faster."""
    from deltalake import Field, Schema
    from deltalake.exceptions import CommitFailedError

    new = schema_text(new_columns(snapshot, schema))
    fields: list[Field] = list(Schema.from_json(new).fields)
    try:
        snapshot.table.alter.add_columns(fields, commit_properties=_once({}, {}))
    except (CommitFailedError, OSError) as error:
        _refuse_unless_lost(snapshot, error)
        return False
    return True


def _refuse_unless_lost(snapshot: Snapshot, error: Exception) -> None:
    """Raise the commit's error unless another commit was faster.

    If the store's answer was lost, the result is unknown; the table then shows whether the commit
    succeeded.
    """
    if isinstance(error, OSError):
        return
    newest = snapshot.table
    newest.update_incremental()
    if newest.version() == snapshot.version:
        raise TerminalStepError(f"{snapshot.name}: the commit is refused: {error}") from error


def new_columns(snapshot: Snapshot, schema: Any) -> list[dict[str, Any]]:
    """Return the columns that only the new files have, or that have new fields there.

    Raises TerminalStepError for a type that would have to be widened, which Delta does not support.
    """
    known = {field["name"].lower(): field for field in delta_fields(snapshot.schema)}
    new = []
    for field in delta_fields(schema):
        old = known.get(field["name"].lower())
        if old is None:
            new.append(field)
            continue
        parts = list(_parts(old["type"], field["type"], old["name"]))
        for place, was, now in parts:
            if was is not None and was != now:
                _refuse_wider(snapshot, old["name"], place, (was, now))
        if any(was is None for _, was, _ in parts):
            new.append({**field, "name": old["name"]})
    return new


def _parts(old: Any, new: Any, place: str) -> Iterator[tuple[str, Any, Any]]:
    """Yield path and both types of each common part; the old type is None for a new field."""
    if isinstance(old, str) or isinstance(new, str) or old["type"] != new["type"]:
        yield place, old, new
    elif old["type"] == "struct":
        known = {field["name"].lower(): field for field in old["fields"]}
        for field in new["fields"]:
            path, was = f"{place}.{field['name']}", known.get(field["name"].lower())
            if was is None:
                yield path, None, field["type"]
            else:
                yield from _parts(was["type"], field["type"], path)
    else:
        names = {"elementType": "element", "keyType": "key", "valueType": "value"}
        for name in names.keys() & old.keys():
            yield from _parts(old[name], new[name], f"{place}.{names[name]}")


def _refuse_wider(snapshot: Snapshot, column: str, place: str, kinds: tuple[Any, Any]) -> NoReturn:
    fields = [{"name": place, "type": kind} for kind in kinds]
    was, now = (each.dataType.simpleString() for each in spark_schema(fields, snapshot.name))
    fix = f"write CAST({column} AS {was})" if place == column else f"make it {was}"
    raise TerminalStepError(
        f"{snapshot.name}: column {place} is {was} in the Delta table, which cannot become {now}; "
        f"{fix} in the step's SQL, or load a new table"
    )


def _once(transactions: Mapping[str, int], said: Mapping[str, Any]) -> Any:
    """Build properties of a commit that is not retried on top of newer commits."""
    from deltalake.transaction import CommitProperties, Transaction

    now = int(time.time() * 1000)
    return CommitProperties(
        custom_metadata=dict(said) or None,
        max_commit_retries=0,
        app_transactions=[Transaction(name, value, now) for name, value in transactions.items()],
    )
