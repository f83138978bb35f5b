"""Readers: one function per kind of source."""

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import accumulate
from typing import TYPE_CHECKING, Any

from logdriven_dagster.config.models.steps import (
    CatalogSource,
    CsvSource,
    FileSource,
    FilesSource,
    JdbcSource,
    JsonSource,
    KafkaSource,
    RecordsSource,
    Source,
    TextSource,
)
from logdriven_dagster.config.models.tables import TableConfig
from logdriven_dagster.config.project import Project
from logdriven_dagster.engine.databases.connections import reader_options
from logdriven_dagster.engine.databases.exact_columns import read_exactly
from logdriven_dagster.engine.queries.instants import lies_within
from logdriven_dagster.engine.queries.quoting import reference
from logdriven_dagster.engine.queries.rendering import render, render_for_database, render_path
from logdriven_dagster.engine.sources.files.malformed import Suspect
from logdriven_dagster.engine.sources.files.records import (
    UNDECODABLE,
    Malformed,
    checked,
    columns_of_ddl,
    declared,
    read_as,
    record_options,
    tolerated,
)
from logdriven_dagster.engine.sources.files.schemas import columns_differ
from logdriven_dagster.engine.sources.kafka import read_kafka
from logdriven_dagster.engine.sources.keys import key_range, lies_in_keys, read_keys
from logdriven_dagster.engine.sources.known_sources import (
    Fingerprint,
    Key,
    KnownSources,
    fingerprint,
)
from logdriven_dagster.engine.spark.modes import mode_of
from logdriven_dagster.engine.spark.settings import option_texts
from logdriven_dagster.errors import TerminalStepError
from logdriven_dagster.model.attempts import CURRENT_FILE_LENGTH
from logdriven_dagster.model.runs import WindowRun
from logdriven_dagster.model.windows import Slice, TimeWindow

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType


@dataclass(frozen=True)
class Reading:
    """What a reader needs to know beside its source."""

    project: Project
    spark: "SparkSession"
    run: WindowRun
    sources: KnownSources = field(default_factory=KnownSources)
    windows: tuple[TimeWindow, ...] = ()
    """The windows that the run reads in one pass; none where it is one by itself."""
    malformed: list[Malformed] = field(default_factory=list)
    """What was found by those sources of the reading that let malformed records through."""

    @property
    def table(self) -> TableConfig:
        return self.project.table(self.run.table)

    def known_as(self, source: Source) -> Key:
        """What `sources` knows the files of a source by."""
        return _known_as(self, source)

    @property
    def slice(self) -> Slice:
        """The window of a sliced table."""
        assert isinstance(self.run.window, Slice)
        return self.run.window


def read_source(reading: Reading, source: Source) -> "DataFrame":
    """The source as a frame, restricted to the window if it names a column for that."""
    frame = read_whole(reading, source)
    if source.key_column and not isinstance(source, JdbcSource):
        frame = frame.where(lies_in_keys(frame, source, key_range(reading.table, reading.slice)))
    if source.window_column:
        with columns_named_by(source):
            frame = frame.where(lies_within(reference(source.window_column), reading.run.window))
    return _settled(reading, source, frame)


@contextmanager
def columns_named_by(source: Source) -> Iterator[None]:
    """Let a column that the source lacks be told with the field that names it, not as of a query.

    Spark Connect asks for columns later, and tells it as of a query.
    """
    from pyspark.errors import AnalysisException

    try:
        yield
    except AnalysisException as error:
        if not (error.getCondition() or "").startswith("UNRESOLVED_COLUMN"):
            raise
        field = "window_column" if source.window_column else "key_column"
        told = (error.getMessageParameters() or {}).get("proposal", "").replace("`", "")
        near = [name for name in told.split(", ") if name and not name.startswith("_")]
        columns = f"; it has {', '.join(near)}" if near else ""
        problem = f"the source has no column {getattr(source, field)}, its {field}{columns}"
        raise TerminalStepError(problem) from None


def _settled(reading: Reading, source: Source, frame: "DataFrame") -> "DataFrame":
    """The rows without what a file of text does not really say."""
    if not isinstance(source, RecordsSource):
        return frame
    if source.is_strict:
        path = _known_as(reading, source).path
        trusted = reading.sources.are_trusted(UNDECODABLE, path, reading.run.files)
        return checked(frame, source, decodable=trusted)
    frame, malformed = tolerated(frame, source, reading.windows or (reading.run.window,))
    reading.malformed.append(malformed)
    return frame


def read_whole(reading: Reading, source: Source) -> "DataFrame":
    """The source as a frame; of a database, only what its queries ask for."""
    return READERS[type(source)](reading, source)


def _read_files(reading: Reading, source: FileSource) -> "DataFrame":
    if found := _local_files(reading, source):
        names = columns_of_ddl(source.columns).fieldNames() if source.columns else ()
        if reading.table.missing_columns == "allow" or columns_differ(found, source.type, names):
            source = source.model_copy(update={"options": {"mergeSchema": True, **source.options}})
    return load_files(reading, source, source.columns)


def _local_files(reading: Reading, source: FileSource) -> Fingerprint | None:
    """The files that are read, where they can be looked into at little cost."""
    if reading.table.incremental_type != "files":
        return fingerprint(_known_as(reading, source).path)
    found = [fingerprint(file.location) for file in reading.run.files]
    known = [each for each in found if each is not None]
    return frozenset().union(*known) if len(known) == len(found) else None


def _read_records(reading: Reading, source: RecordsSource) -> "DataFrame":
    columns = declared(source)
    if columns is None and not source.is_strict and not isinstance(source, TextSource):
        # Spark finds out about the columns, but gives the corrupt one only where it found some.
        columns = load_files(reading, source, None).schema
    return load_files(reading, source, read_as(source, columns) if columns else None)


def load_files(reading: Reading, source: Any, columns: "str | StructType | None") -> "DataFrame":
    """The files of a source, or those of the window, read with these columns."""
    reader = reading.spark.read.format(source.type).options(**_options(source))
    if columns is not None:
        reader = reader.schema(columns)
    if reading.table.incremental_type != "files":
        key = _known_as(reading, source)
        if source.columns is None and columns is not None:
            key = key._replace(columns="inferred")
        return reading.sources.load(key, reading.spark, reader, typed=columns is not None)
    if not reading.run.files:
        return reading.spark.createDataFrame([], columns or source.columns)
    return reader.load([_literally(file.location) for file in reading.run.files])


def _options(source: FilesSource) -> dict[str, str]:
    """What Spark's reader of files is told, by us and then by the user."""
    if isinstance(source, RecordsSource):
        return record_options(source)
    return option_texts(source.options)


def _known_as(reading: Reading, source: Any) -> Key:
    path = render_path(source.path, reading.run, reading.project)
    return Key(path, source.type, source.columns, tuple(sorted(_options(source).items())))


def _literally(location: str) -> str:
    """A path that Spark does not take for a pattern."""
    return re.sub(r"([*?\[\]{}\\])", r"\\\1", location)


def _read_jdbc(reading: Reading, source: JdbcSource) -> "DataFrame":
    connection = reading.project.connection(source.connection)
    options = reader_options(connection)
    if source.table:
        options["dbtable"] = render_for_database(source.table, reading.run)
    else:
        options["query"] = render_for_database(source.query or "", reading.run)
    options |= option_texts(source.options)
    window = reading.run.window
    read = read_exactly(reading.spark, connection, options, reading.project.zone, window)
    if source.key_column:
        rows = read_keys(reading, source, read.options, read.converted())
        return read.converted(rows)
    if source.window_column:
        return read.converted(read.near(source.window_column, window))
    return read.converted()


def _read_catalog(reading: Reading, source: CatalogSource) -> "DataFrame":
    options = option_texts(source.options)
    return reading.spark.read.options(**options).table(render(source.name, reading.run))


def may_pass(reading: Reading, source: Source, error: Exception) -> bool:
    """Whether what failed may succeed when tried again, since the error was no error of the files.

    TerminalStepError names the record of the source that is to blame, if one is.
    """
    if not (isinstance(source, RecordsSource) and source.is_strict):
        return False
    path = _known_as(reading, source).path
    suspect = Suspect(reading.spark, source, reading.run.window, lambda: _files(reading, source))
    if (problem := suspect.refusal(error)) is None:
        return False
    trusted = reading.sources.are_trusted(UNDECODABLE, path, reading.run.files)
    if UNDECODABLE in problem and not trusted and suspect.is_decodable():
        # The very character that Java puts for such bytes stands in the file.
        reading.sources.trust(UNDECODABLE, path, reading.run.files)
        return True
    raise TerminalStepError(problem)


def _files(reading: Reading, source: Source) -> "list[str]":
    return mode_of(reading.spark).input_files(read_whole(reading, source))


READERS: dict[type[Any], Callable[[Reading, Any], "DataFrame"]] = {
    FileSource: _read_files,
    TextSource: _read_records,
    CsvSource: _read_records,
    JsonSource: _read_records,
    JdbcSource: _read_jdbc,
    CatalogSource: _read_catalog,
    KafkaSource: read_kafka,
}


def source_files(reading: Reading, source: Source, frame: "DataFrame") -> tuple[str, ...]:
    """Base names of the files behind a source, as many as `job_log.current_file` holds."""
    if not isinstance(source, FilesSource):
        return ()
    if reading.table.incremental_type == "files":
        return _file_names(frame)
    return reading.sources.names(_known_as(reading, source), lambda: _file_names(frame))


def _file_names(frame: "DataFrame") -> tuple[str, ...]:
    from urllib.parse import unquote

    paths = mode_of(frame.sparkSession).input_files(frame)
    names = sorted({unquote(path.rsplit("/", 1)[-1]) for path in paths})
    starts = accumulate((len(name) + 1 for name in names), initial=0)  # with a comma each
    last = CURRENT_FILE_LENGTH + 1  # one that does not fit any more says that some are missing
    return tuple(name for name, start in zip(names, starts, strict=False) if start <= last)
