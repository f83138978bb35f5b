"""Commits to Iceberg tables: replace files in one compare-and-swap, or change nothing."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

from logdriven_dagster.engine.iceberg.added_files import data_file

if TYPE_CHECKING:
    from pyiceberg.manifest import DataFile
    from pyiceberg.table import Table, Transaction

_TRIES = 5


def commit_files(
    table: "Table",
    removed: "Iterable[DataFile]",
    added: Iterable[str],
    properties: Mapping[str, str],
    before: "Callable[[Transaction], None]" = lambda _: None,
) -> bool:
    """Replace Parquet files with others; return False if the commit failed or may have failed.

    The commit fails if another writer was faster. If the catalog's answer was lost, the table shows
    the result. A late commit fails if there was another one since, because it is a
    compare-and-swap.

    Args:
        table: The version of the table on which the change is based.
        removed: The files to remove.
        added: The locations of the new files.
        properties: The properties of the snapshot.
        before: Makes further changes in the same transaction.
    """
    from pyiceberg.exceptions import ValidationException

    from logdriven_dagster.engine.targets.iceberg.transactions import CachedTransaction

    gone = list(removed)
    try:
        transaction = CachedTransaction(table)
        with transaction:
            before(transaction)
            update = transaction.update_snapshot(snapshot_properties=dict(properties))
            replacing = transaction.replace_files(properties) if gone else update.merge_append()
            with replacing as snapshot:
                for file in gone:
                    snapshot.delete_data_file(file)
                for path in added:
                    new = data_file(table.io, transaction.table_metadata, path)
                    snapshot.append_data_file(new)
    except ValidationException:
        return False
    except get_commit_errors():
        return False
    return True


def get_commit_errors() -> tuple[type[BaseException], ...]:
    """Return the errors of commits that failed or whose result is unknown."""
    from pyiceberg.exceptions import (
        CommitFailedException,
        CommitStateUnknownException,
        ServerError,
        ServiceUnavailableError,
    )
    from requests.exceptions import ConnectionError as NoAnswerError
    from requests.exceptions import Timeout

    unknown = (CommitStateUnknownException, ServerError, ServiceUnavailableError)
    return (CommitFailedException, *unknown, NoAnswerError, Timeout)


def tries(load: "Callable[[], Table | None]") -> "Iterator[Table]":
    """Yield the current version of the table for each try of a change; nothing without a table."""
    for _ in range(_TRIES):
        if (table := load()) is not None:
            yield table
