"""Reader of Parquet and ORC files."""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from logdriven_dagster.config.models.types.files import FileSource
from logdriven_dagster.engine.sources.file_rows import ALL_FILES, FileSelection
from logdriven_dagster.engine.sources.files.folders import refuse_hidden_columns
from logdriven_dagster.engine.sources.files.listing import find_data_files
from logdriven_dagster.engine.sources.files.loading import (
    CARRIED,
    build_cache_key,
    build_options,
    carry_facts,
    find_base,
    find_values,
    load_files,
)
from logdriven_dagster.engine.sources.files.plain.columns import refuse_other_columns
from logdriven_dagster.engine.sources.files.plain.files import plain_files
from logdriven_dagster.engine.sources.files.readers import FilesReader
from logdriven_dagster.engine.sources.files.typed.changed_times import refuse_skipped_times
from logdriven_dagster.engine.sources.files.typed.footers import (
    Footer,
    column_names,
    describe_footer,
    footers,
    learn_footers,
)
from logdriven_dagster.engine.sources.files.typed.newer_features import refuse_newer_features
from logdriven_dagster.engine.sources.files.typed.old_days import without_old_days
from logdriven_dagster.engine.sources.files.typed.orc_values import find_old_fraction
from logdriven_dagster.engine.sources.files.typed.reading import Part, TypedReading, plan_reading
from logdriven_dagster.engine.sources.known_sources import Fingerprint
from logdriven_dagster.engine.sources.readers import Reading
from logdriven_dagster.engine.spark.modes import mode_of
from logdriven_dagster.engine.storage.data_files import DataFile, DataFiles
from logdriven_dagster.engine.storage.locations import literal_path
from logdriven_dagster.errors import TerminalStepError
from logdriven_dagster.model.source_rows import FileRows, FileVersion

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType


class TypedFilesReader(FilesReader):
    """Reader of Parquet and ORC files."""

    def whole(self, reading: Reading, source: FileSource) -> "DataFrame":
        mode = mode_of(reading.spark)
        if not mode.capabilities.casts_on_read:
            return _read_unconverted(reading, source)
        files = find_data_files(reading, source, build_cache_key(reading, source))
        if files is None and source.columns is None:
            return load_files(reading, _merging(source), None)
        if not files:
            return load_files(reading, source, source.columns)
        found = self._plan_reading(reading, source, files)
        if found.merges:
            source = _merging(source)
        if not found.parts:
            return load_files(reading, source, found.columns, found.samples)
        if len(found.parts) > 1:
            return _union_of_parts(reading, source, found.parts, found.columns)
        (part,) = found.parts
        return part.convert(load_files(reading, source, part.schema))

    def _plan_reading(self, reading: Reading, source: FileSource, files: DataFiles) -> TypedReading:
        """Choose the schemas for reading files, once for each step."""
        if reading.table.incremental.registers_files:
            return _plan_reading(reading, source, files)
        what = ("schemas", build_cache_key(reading, source))
        return reading.listed.remember(what, lambda: _plan_reading(reading, source, files))

    def _own_columns(
        self, reading: Reading, source: FileSource, files: Fingerprint
    ) -> Collection[str]:
        if source.columns:
            return super()._own_columns(reading, source, files)
        found = find_data_files(reading, source, build_cache_key(reading, source))
        found = found or frozenset(DataFile(*each) for each in files)
        return column_names(_footers(reading, source, found))

    def validate_frame(
        self, reading: Reading, source: FileSource, frame: "DataFrame"
    ) -> "DataFrame":
        if source.type != "orc" or not mode_of(reading.spark).capabilities.casts_on_read:
            return frame
        found = _find_footers(reading, source)
        others = [footer.path for footer in found if not footer.is_of_java]
        return without_old_days(frame, others[0]) if others else frame

    def learn_files(self, source: FileSource, files: Iterable[FileRows]) -> None:
        learn_footers(files, source.type)

    def describe_file(self, source: FileSource, version: FileVersion) -> str | None:
        return describe_footer(version, source.type)

    def may_pass(self, reading: Reading, source: FileSource, error: Exception) -> bool:
        """Return False; raise TerminalStepError for a timestamp of ORC that Java cannot read."""
        if source.type == "orc":
            found = _find_footers(reading, source)
            files = ((file, footer.columns) for footer in found for file in footer.files)
            if problem := find_old_fraction(error, files):
                raise TerminalStepError(problem)
        return False


def _merging(source: FileSource) -> FileSource:
    """Return a source whose columns Spark infers from all files, unless its options forbid it."""
    return source.model_copy(update={"options": {"mergeSchema": True, **source.options}})


def _plan_reading(reading: Reading, source: FileSource, files: DataFiles) -> TypedReading:
    mode, key = mode_of(reading.spark), build_cache_key(reading, source)
    declared = mode.parse_columns(source.columns) if source.columns else None
    read = _footers(reading, source, files)
    newer = ((footer.path, footer.newer) for footer in read)
    refuse_newer_features(newer, declared, reading.spark)
    folders = find_values(reading, key, (file.version for file in files))
    if hidden := column_names(read) & folders.keys():
        refuse_hidden_columns(files, find_base(key), hidden, source.type)
    if source.type == "orc":
        refuse_skipped_times(read, declared, str(reading.project.zone))
    missing = reading.table.missing_columns
    return plan_reading(read, declared, missing=missing, folders=folders, place=source.path)


def _find_footers(reading: Reading, source: FileSource) -> Sequence[Footer]:
    """Return the footers of the files of a source; empty if only Spark can list them."""
    files = find_data_files(reading, source, build_cache_key(reading, source))
    return _footers(reading, source, files or frozenset())


def _footers(reading: Reading, source: FileSource, files: DataFiles) -> Sequence[Footer]:
    """Return the footers of files, found once for each step."""
    what = ("footers", source.type, files)
    return reading.listed.remember(what, lambda: footers(files, source.type))


def _union_of_parts(
    reading: Reading, source: FileSource, parts: Sequence[Part], columns: "StructType | None"
) -> "DataFrame":
    """Return the rows of files that need different schemas; `columns` are the final ones."""
    from pyspark.sql.types import StructType

    selection = reading.files or ALL_FILES
    # Without rows: it has the columns in the names of folders.
    whole = load_files(replace(reading, files=FileSelection(frozenset())), source, columns)
    frame = None
    for part in parts:
        if not (paths := selection.select_paths(part.paths)):
            continue
        names = {name.lower() for name in part.schema.names}
        folders = [field for field in whole.schema.fields if field.name.lower() not in names]
        reader = reading.spark.read.format(source.type).options(**build_options(source))
        reader = reader.schema(StructType([*part.schema.fields, *folders]))
        if not reading.table.incremental.registers_files:
            reader = reader.option("basePath", find_base(build_cache_key(reading, source)))
        loaded = carry_facts(source, reader.load([literal_path(path) for path in paths]))
        rows = selection.add_name(loaded)
        carried = [CARRIED] if source.file_columns else []
        rows = selection.select_columns(part.convert(rows), [*whole.columns, *carried])
        frame = rows if frame is None else frame.union(rows)
    return selection.add_name(whole) if frame is None else frame


def _read_unconverted(reading: Reading, source: FileSource) -> "DataFrame":
    """Return the rows of files that all have exactly the declared columns.

    One list of the files serves all queries of the window.
    """
    columns, mode = str(source.columns), mode_of(reading.spark)
    reader = reading.spark.read.format(source.type).schema(columns)
    files = plain_files(build_cache_key(reading, source).path, source.type, mode.title)
    refuse_other_columns(files, mode.parse_columns(columns), mode.title)
    return reader.load([file.as_uri() for file in files])
