"""Reader of Parquet and ORC files."""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from logdriven_dagster.config.locations import is_remote
from logdriven_dagster.config.models.types.files import FileSource
from logdriven_dagster.engine.sources.file_rows import ALL_FILES, FileSelection
from logdriven_dagster.engine.sources.files.folders import refuse_hidden_columns
from logdriven_dagster.engine.sources.files.listing import local_files
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
from logdriven_dagster.engine.sources.known_sources import Fingerprint, fingerprint
from logdriven_dagster.engine.sources.readers import Reading
from logdriven_dagster.engine.spark.modes import mode_of
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
        files = _local_files(reading, source)
        if not files:
            return load_files(reading, source, source.columns)
        found = self._plan_reading(reading, source, files)
        if found.merges:
            options = {"mergeSchema": True, **source.options}
            source = source.model_copy(update={"options": options})
        if not found.parts:
            return load_files(reading, source, found.columns, found.samples)
        if len(found.parts) > 1:
            return _union_of_parts(reading, source, found.parts, found.columns)
        (part,) = found.parts
        return part.convert(load_files(reading, source, part.schema))

    def _plan_reading(
        self, reading: Reading, source: FileSource, files: Fingerprint
    ) -> TypedReading:
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
        files = _local_files(reading, source) or files
        return column_names(_footers(reading, source, files))

    def validate_frame(
        self, reading: Reading, source: FileSource, frame: "DataFrame"
    ) -> "DataFrame":
        if source.type != "orc" or not mode_of(reading.spark).capabilities.casts_on_read:
            return frame
        found = _footers(reading, source, _local_files(reading, source) or frozenset())
        others = [footer.path for footer in found if not footer.is_of_java]
        return without_old_days(frame, others[0]) if others else frame

    def learn_files(self, source: FileSource, files: Iterable[FileRows]) -> None:
        learn_footers(files, source.type)

    def describe_file(self, source: FileSource, version: FileVersion) -> str | None:
        return None if is_remote(version.path) else describe_footer(version, source.type)

    def may_pass(self, reading: Reading, source: FileSource, error: Exception) -> bool:
        """Return False; raise TerminalStepError for a timestamp of ORC that Java cannot read."""
        if source.type == "orc":
            found = _footers(reading, source, _local_files(reading, source) or frozenset())
            files = ((path, footer.columns) for footer in found for path in footer.paths)
            if problem := find_old_fraction(error, files):
                raise TerminalStepError(problem)
        return False


def _plan_reading(reading: Reading, source: FileSource, files: Fingerprint) -> TypedReading:
    mode, key = mode_of(reading.spark), build_cache_key(reading, source)
    declared = mode.parse_columns(source.columns) if source.columns else None
    read = _footers(reading, source, files)
    newer = ((footer.path, footer.newer) for footer in read)
    refuse_newer_features(newer, declared, reading.spark)
    folders = find_values(reading, key, files)
    if hidden := column_names(read) & folders.keys():
        refuse_hidden_columns(files, find_base(key), hidden, source.type)
    if source.type == "orc":
        refuse_skipped_times(read, files, declared, str(reading.project.zone))
    missing = reading.table.missing_columns
    return plan_reading(read, declared, missing=missing, folders=folders, place=source.path)


def _footers(reading: Reading, source: FileSource, files: Fingerprint) -> Sequence[Footer]:
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


def _local_files(reading: Reading, source: FileSource) -> Fingerprint | None:
    """Return the local files of a source; None if they are not cheap to inspect."""
    if not reading.table.incremental.registers_files:
        return local_files(reading, build_cache_key(reading, source))
    found = [fingerprint(file.location) for file in reading.run.files]
    known = [each for each in found if each is not None]
    return frozenset().union(*known) if len(known) == len(found) else None
