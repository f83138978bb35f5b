"""Delta tables as their logs describe them, read by delta-rs; `deltalake` is imported lazily."""

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from logdriven_dagster.config.locations import (
    as_path,
    is_remote,
    normalize_location,
    resolve_location,
)
from logdriven_dagster.errors import TerminalStepError, TransientStepError, in_brief
from logdriven_dagster.plugins.delta.format.schema import physical_name, spark_schema
from logdriven_dagster.plugins.delta.format.stores import store_options

if TYPE_CHECKING:
    from deltalake import DeltaTable
    from pyspark.sql.types import StructType

_ABSOLUTE = re.compile("[A-Za-z][A-Za-z0-9+.-]*:/")
_PLACE = re.compile("^[A-Za-z0-9]+:/*")


@dataclass(frozen=True, slots=True)
class DataFile:
    """An active file of a table."""

    path: str
    """Path relative to the table's folder, as a commit names it; absolute for files elsewhere."""
    location: str
    rows: int | None
    bytes: int
    number: int
    """Its position among the files of the snapshot."""


def _location_of_file(path: str, table: str) -> str:
    """Return the location of a file, given its escaped path in the log of a table.

    A path may be absolute, as in shallow clones: delta-rs names such a file below the table.
    """
    text = unquote(path)
    if _ABSOLUTE.match(path):
        return resolve_location(text)
    if path.startswith("/"):  # absolute in the store of the table
        store = re.match("[^:]*://[^/]*", table)
        return store[0] + text if store else resolve_location(text)
    return f"{table}/{text}"


def sizes(files: Iterable[DataFile]) -> dict[str, int]:
    """Return the locations of files with their sizes in bytes."""
    return {file.location: file.bytes for file in files}


class Snapshot:
    """A table at one version, unaffected by later commits."""

    def __init__(self, table: "DeltaTable", location: str) -> None:
        self.table, self.location = table, location
        self.version = table.version()
        self._transactions: dict[str, int | None] = {}
        self._bounds: dict[str, Sequence[tuple[Any, Any]]] = {}
        self._nulls: dict[str, Sequence[int | None]] = {}

    @property
    def name(self) -> str:
        """Name of the table in messages."""
        return as_path(self.location)

    @cached_property
    def fields(self) -> list[dict[str, Any]]:
        """The columns as the log's JSON describes them."""
        described: dict[str, Any] = json.loads(self.table.schema().to_json())
        return described["fields"]  # type: ignore[no-any-return]

    @cached_property
    def schema(self) -> "StructType":
        """The schema with which Spark reads the table's files."""
        return spark_schema(self.fields, self.name)

    @property
    def column_mapping(self) -> str:
        """The mode of column mapping: `none`, or `name` or `id`, by which files have columns."""
        configuration = self.table.metadata().configuration
        return (configuration.get("delta.columnMapping.mode") or "none").lower()

    @cached_property
    def partition_columns(self) -> list[str]:
        return self.table.metadata().partition_columns

    @cached_property
    def files(self) -> tuple[DataFile, ...]:
        """The active files."""
        paths = self._column("path") or []
        rows = self._column("num_records") or [None] * len(paths)
        sizes = self._column("size_bytes") or ()
        return tuple(
            DataFile(unquote(path), _location_of_file(path, self.location), count, size, n)
            for n, (path, count, size) in enumerate(zip(paths, rows, sizes, strict=True))
        )

    @property
    def rows(self) -> int | None:
        """Row count of the table; None if a file has no row count, or more rows than the table."""
        counts = [file.rows for file in self.files]
        return None if None in counts or self.reduced_files else sum(filter(None, counts))

    def bounds(self, column: str) -> Sequence[tuple[Any, Any]]:
        """Return lower and upper bounds of a column per file; None if unknown."""
        if column not in self._bounds:
            unknown = [None] * len(self.files)
            value = self._column(f"partition.{column}")
            stored = self._get_stored_name(column)
            low, high = (
                value or self._column(f"{end}.{stored}") or unknown for end in ("min", "max")
            )
            self._bounds[column] = list(zip(low, high, strict=True))
        return self._bounds[column]

    def nulls(self, column: str) -> Sequence[int | None]:
        """Return the number of NULLs in a column per file; None if unknown."""
        if column not in self._nulls:
            unknown = [None] * len(self.files)
            stored = self._get_stored_name(column)
            self._nulls[column] = self._column(f"null_count.{stored}") or unknown
        return self._nulls[column]

    def list_named_files(self) -> set[str]:
        """Return the locations of active files, and of those that were recently removed."""
        return self.list_removed_files(0) | {file.location for file in self.files}

    def list_removed_files(self, hours: int, *, keep: int = 1) -> set[str]:
        """Return the locations of files that were removed at least `hours` ago, existing or not.

        Active files are excluded, because a file is removed and added when it gets a deletion
        vector; so are files of the newest `keep` versions.
        """
        first = max(0, self.version - keep + 1)
        versions = list(range(first, self.version + 1)) if keep > 1 else None
        found = self.table.vacuum(  # a dry run only lists them
            hours, enforce_retention_duration=False, keep_versions=versions
        )
        return {f"{self.location}/{path}" for path in found} - {f.location for f in self.files}

    def deletion_vectors(self) -> Iterator[tuple[str, list[bool]]]:
        """Yield each file with deleted rows, and a list with the rows to keep.

        Rows beyond the end of a list are kept. Raises TerminalStepError if a vector cannot be read.
        """
        from deltalake.exceptions import DeltaError

        try:
            for batch in self.table.deletion_vectors():
                files, kept = (batch.column(n).to_pylist() for n in (0, 1))
                yield from zip(files, kept, strict=True)
        except DeltaError as error:
            raise TerminalStepError(
                f"the Delta table {self.name}: a deletion vector cannot be read: "
                f"{in_brief(str(error))}; restore the file, or the table to an earlier version"
            ) from None

    @cached_property
    def reduced_files(self) -> tuple[DataFile, ...]:
        """The active files of which deletion vectors delete rows."""
        if "deletionVectors" not in (self.table.protocol().reader_features or ()):
            return ()
        named = {_PLACE.sub("", resolve_location(unquote(f))) for f, _ in self.deletion_vectors()}
        return tuple(file for file in self.files if _PLACE.sub("", file.location) in named)

    def transaction(self, application: str) -> int | None:
        """Return the version of an application's last transaction, which checkpoints keep."""
        if application not in self._transactions:
            self._transactions[application] = self.table.transaction_version(application)
        return self._transactions[application]

    def column_name(self, name: str) -> str | None:
        """Return the table's spelling of a column; None if it has none."""
        spelled = (field["name"] for field in self.fields)
        return next((each for each in spelled if each.lower() == name.lower()), None)

    def _get_stored_name(self, column: str) -> str:
        """Return the name of a column in statistics."""
        if self.column_mapping == "none":
            return column
        return next(physical_name(field) for field in self.fields if field["name"] == column)

    @cached_property
    def _actions(self) -> Any:
        import pyarrow as pa

        return pa.table(self.table.get_add_actions(flatten=True))

    def _column(self, name: str) -> "list[Any] | None":
        known = name in self._actions.column_names
        return self._actions.column(name).to_pylist() if known else None


def delta_rs() -> Any:
    """Import and return `deltalake`; raise TerminalStepError if it is not installed."""
    try:
        import deltalake
    except ImportError:
        raise TerminalStepError(
            "type delta needs the package deltalake; run `pip install 'logdriven_dagster[delta]'`"
        ) from None
    return deltalake


def place_of(location: str, properties: Mapping[str, str]) -> dict[str, Any]:
    """Return delta-rs' arguments for the table's location and its object store."""
    if not is_remote(location):
        return {"table_uri": as_path(location)}
    return {"table_uri": normalize_location(location), "storage_options": store_options(properties)}


def open_table(
    location: str, properties: Mapping[str, str], version: int | None = None
) -> Snapshot | None:
    """Return the table as it is now, or as it was at a version; None if there is none.

    `properties` configure the project's object stores. Raises TerminalStepError if the table cannot
    be read, and TransientStepError if its store does not answer.
    """
    deltalake = delta_rs()
    try:
        table = deltalake.DeltaTable(**place_of(location, properties), version=version)
        return Snapshot(table, location)
    except deltalake.exceptions.TableNotFoundError:
        return None
    except deltalake.exceptions.DeltaError as error:
        problem = f"the Delta table {as_path(location)} cannot be read: {in_brief(str(error))}"
        raise TerminalStepError(problem) from None
    except OSError as error:
        problem = f"{as_path(location)} does not answer: {in_brief(str(error))}"
        raise TransientStepError(problem) from None
