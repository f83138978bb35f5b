"""Reading files with a Python library: Spark lists them, and each task reads whole files."""

import sys
from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import lru_cache
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple

from logdriven_dagster.config.locations import is_remote
from logdriven_dagster.engine.arrow.types import arrow_schema
from logdriven_dagster.engine.queries.nested_values import sql_type
from logdriven_dagster.engine.queries.quoting import quote_name
from logdriven_dagster.engine.sources.file_rows import local_path
from logdriven_dagster.engine.sources.files.loading import load_paths
from logdriven_dagster.engine.sources.files.readers import FilesReader
from logdriven_dagster.engine.sources.files.records import count_malformed
from logdriven_dagster.engine.sources.readers import Reading
from logdriven_dagster.engine.spark import functions as sf
from logdriven_dagster.engine.spark.actions import run_action
from logdriven_dagster.engine.spark.modes import mode_of
from logdriven_dagster.engine.storage.locations import file_system
from logdriven_dagster.errors import TerminalStepError, UsageError
from logdriven_dagster.plugins.formats.batches import PROBLEM, Record, build_batches
from logdriven_dagster.plugins.formats.models import LibraryFilesSource

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

_PATH = "path"


class File(NamedTuple):
    """One version of a file."""

    path: str
    """A path of a local file, otherwise a URL."""
    size: int
    modified: int
    """Time of the last change in microseconds."""


class LibraryFilesReader(FilesReader):
    """Reader of files in the format of a Python library."""

    extra: str | None = None
    """The extra of logdriven_dagster that installs the library; None for Python's own."""
    library: str | None = None
    """The module of the library."""

    @abstractmethod
    def get_columns(
        self, reading: Reading, source: Any, files: "Callable[[], list[File]]"
    ) -> "StructType":
        """Return the columns of the files, without those of folders.

        `files` lists all files of the source. Raises TerminalStepError for a file that does not
        have these columns.
        """

    @abstractmethod
    def get_record_reader(
        self, reading: Reading, source: Any, columns: "StructType"
    ) -> "Callable[[BinaryIO, str], Iterator[Record]]":
        """Return a function that yields the records of a file, given its bytes and its path.

        `columns` are those of `get_columns`.
        """

    def whole(self, reading: Reading, source: Any) -> "DataFrame":
        self._require_library()
        if reading.table.incremental.registers_files and not reading.run.files:
            return reading.spark.createDataFrame([], source.columns)
        paths = load_paths(reading, source)
        columns = self.get_columns(reading, source, lambda: list_files(reading, source))
        frame = _read_paths(reading, source, paths, columns, self)
        return self.use_declared_columns(reading, source, frame)

    def use_declared_columns(
        self, reading: Reading, source: Any, frame: "DataFrame"
    ) -> "DataFrame":
        """Return the frame with the names and types that the configuration declares."""
        return _use_declared_columns(reading, source, frame)

    def validate_frame(self, reading: Reading, source: Any, frame: "DataFrame") -> "DataFrame":
        """Return the frame with an error for each record that does not fit, or count them."""
        if PROBLEM not in frame.columns:
            return frame
        problem = quote_name(PROBLEM)
        if source.mode != "FAILFAST":
            is_malformed = sf.expr(f"{problem} IS NOT NULL")
            windows = reading.windows or (reading.run.window,)
            frame, count = count_malformed(
                frame, is_malformed, PROBLEM, source.window_column, windows
            )
            reading.malformed.append(count)
            return (frame.where(~is_malformed) if source.drops_records else frame).drop(PROBLEM)
        # A filter is evaluated even if the query reads none of the columns.
        fits = f"CASE WHEN {problem} IS NULL THEN true ELSE CAST(raise_error({problem}) AS BOOLEAN)"
        return frame.where(f"{fits} END").drop(PROBLEM)

    def _require_library(self) -> None:
        if self.library is None:
            return
        try:
            import_module(self.library)
        except ImportError as error:
            raise UsageError(
                f"a source of type {self.extra} needs the package {self.library}: pip install "
                f"'logdriven_dagster[{self.extra}]' ({error})"
            ) from None


def list_files(reading: Reading, source: LibraryFilesSource) -> list[File]:
    """Return all files of a source, oldest first."""
    frame = load_paths(replace(reading, files=None), source, details=True)
    asked = frame.selectExpr(_PATH, "length", "unix_micros(modificationTime) AS modified")
    label = f"{reading.run.table}: files of {source.path}"
    rows = run_action(reading.spark, label, asked.collect)
    files = (File(local_path(row[_PATH]), row["length"], row["modified"]) for row in rows)
    return sorted(files, key=lambda file: (file.modified, file.path))


@contextmanager
def open_file(path: str, storage: Mapping[str, str]) -> Iterator[BinaryIO]:
    """Open a file at a path or URL with the `storage` settings of the project."""
    if is_remote(path):
        with file_system(path, storage).open(path) as stream:
            yield stream
        return
    with Path(path).open("rb") as stream:
        yield stream


def _read_paths(
    reading: Reading,
    source: LibraryFilesSource,
    paths: "DataFrame",
    columns: "StructType",
    reader: LibraryFilesReader,
) -> "DataFrame":
    from pyspark import cloudpickle
    from pyspark.sql.types import StringType, StructType

    others = [field for field in paths.schema.fields if field.name != _PATH]
    own = {field.name.lower() for field in columns.fields}
    for field in others:
        if field.name.lower() in own:
            raise TerminalStepError(
                f"{source.path}: the column {field.name} is in the files and in the names of their "
                "folders, which would hide the values of the files; rename the folders, or use a "
                "path that ends with a pattern for the files"
            )
    arrow = arrow_schema(columns)
    if arrow is None:
        raise TerminalStepError(f"columns: {columns.simpleString()} has a type that cannot be read")
    kinds = {field.name: sql_type(field.dataType) for field in columns.fields}
    task = _Task(
        reader.get_record_reader(reading, source, columns),
        arrow,
        kinds,
        tuple(field.name for field in others),
        source.strict_names & own,
        tuple(sorted(reading.project.storage.items())) if is_remote(source.path) else (),
    )
    if not mode_of(reading.spark).imports_here(reading.spark):
        # The workers' Python needs the library, but none of our modules.
        package = import_module(__name__.partition(".")[0])
        cloudpickle.register_pickle_by_value(package)  # type: ignore[no-untyped-call]
    schema = StructType([*columns.fields]).add(PROBLEM, StringType())
    return paths.mapInArrow(task.read, StructType([*schema.fields, *others]))


def _use_declared_columns(
    reading: Reading, source: LibraryFilesSource, frame: "DataFrame"
) -> "DataFrame":
    """Return the frame with the names and types that the configuration declares.

    Raises TerminalStepError for a declared column that no file and no folder has.
    """
    if source.columns is None:
        return frame
    found = {name.lower(): name for name in frame.columns}
    chosen = []
    for field in mode_of(reading.spark).parse_columns(source.columns).fields:
        own, kind = found.pop(field.name.lower(), None), sql_type(field.dataType)
        if own is None and reading.table.missing_columns != "allow":
            names = ", ".join(name for name in frame.columns if not name.startswith("_logdriven"))
            raise TerminalStepError(
                f"{source.path}: the files have no column {field.name}; they have {names}"
            )
        value = "NULL" if own is None else quote_name(own)
        chosen.append(f"CAST({value} AS {kind}) AS {quote_name(field.name)}")
    return frame.selectExpr(*chosen, *map(quote_name, found.values()))


@dataclass(frozen=True)
class _Task:
    """Work of a Spark task: reads the files of its rows."""

    read_records: Callable[[BinaryIO, str], Iterator[Record]]
    schema: "pa.Schema"
    kinds: Mapping[str, str]
    """Column → its type in SQL, for messages."""
    others: tuple[str, ...]
    """Columns of the rows that are repeated for each record of the file."""
    strict_names: frozenset[str]
    """The lower-case names of columns that decide to which window a record belongs."""
    storage: tuple[tuple[str, str], ...]

    def read(self, batches: "Iterator[pa.RecordBatch]") -> "Iterator[pa.RecordBatch]":
        """Yield the records of the files in the `path` column of the batches."""
        try:
            for batch in batches:
                for number in range(batch.num_rows):
                    yield from self._read_file(batch.slice(number, 1))
        except ImportError as error:
            raise TerminalStepError(
                f"the Python of Spark's workers ({sys.executable}) does not have the package "
                f"{error.name}; install it on all workers, or set PYSPARK_PYTHON to a Python "
                "that has it"
            ) from None

    def _read_file(self, row: "pa.RecordBatch") -> "Iterator[pa.RecordBatch]":
        import pyarrow as pa

        path = local_path(row.column(_PATH)[0].as_py())
        with open_file(path, dict(self.storage)) as stream:
            records = self.read_records(stream, path)
            for batch in build_batches(records, self.schema, self.kinds, path, self.strict_names):
                repeated = [pa.repeat(row.column(name)[0], batch.num_rows) for name in self.others]
                fields = [row.schema.field(name) for name in self.others]
                yield pa.RecordBatch.from_arrays(
                    [*batch.columns, *repeated], schema=pa.schema([*batch.schema, *fields])
                )


@lru_cache(maxsize=100_000)
def read_header(read: Callable[[BinaryIO], Any], file: File, storage: Any) -> Any:
    """Return a fact that `read` finds at the start of one version of a file."""
    with open_file(file.path, dict(storage)) as stream:
        return read(stream)
