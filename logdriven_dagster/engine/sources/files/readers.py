"""Readers of files: formats with types, and text formats."""

from collections.abc import Collection, Hashable, Iterable, Sequence
from dataclasses import replace
from itertools import accumulate
from typing import TYPE_CHECKING, Any

from logdriven_dagster.config.locations import is_remote
from logdriven_dagster.config.models.types.files import (
    CsvSource,
    FileSource,
    FilesSource,
    JsonSource,
    RecordsSource,
    TextSource,
)
from logdriven_dagster.engine.queries.quoting import text_literal
from logdriven_dagster.engine.queries.rendering import build_pattern, render_path, render_paths
from logdriven_dagster.engine.sources.file_rows import (
    ALL_FILES,
    METADATA,
    FileSelection,
    plain_location,
)
from logdriven_dagster.engine.sources.files.arrivals import has_files
from logdriven_dagster.engine.sources.files.folders import (
    Values,
    faithful,
    find_typical,
    refuse_changed_values,
    refuse_hidden_columns,
    values_in_folders,
)
from logdriven_dagster.engine.sources.files.json_texts import has_skipped_objects
from logdriven_dagster.engine.sources.files.listing import (
    files_below,
    list_remote_versions,
    local_files,
    refuse_files_too_deep,
    remote_files,
    without_hidden,
)
from logdriven_dagster.engine.sources.files.malformed import Suspect
from logdriven_dagster.engine.sources.files.plain_columns import refuse_other_columns
from logdriven_dagster.engine.sources.files.plain_csv import read_plain_csv
from logdriven_dagster.engine.sources.files.plain_files import plain_files
from logdriven_dagster.engine.sources.files.records import (
    check_values,
    clean_malformed,
    find_window_doubt,
    parse_declared_columns,
    read_as,
    record_options,
    refuse_inferred_times,
)
from logdriven_dagster.engine.sources.files.text_files import refuse_unreadable_files
from logdriven_dagster.engine.sources.files.text_values import UNDECODABLE
from logdriven_dagster.engine.sources.files.texts import encoding_of
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
from logdriven_dagster.engine.sources.known_sources import (
    PATTERN,
    FileVersions,
    Fingerprint,
    Key,
    fingerprint,
)
from logdriven_dagster.engine.sources.readers import Reader, Reading
from logdriven_dagster.engine.spark import functions as sf
from logdriven_dagster.engine.spark.modes import mode_of
from logdriven_dagster.engine.spark.settings import option_texts
from logdriven_dagster.engine.storage.locations import literal_path
from logdriven_dagster.errors import TerminalStepError
from logdriven_dagster.model.attempts import CURRENT_FILE_LENGTH
from logdriven_dagster.model.source_rows import FileRows, FileVersion

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType


_CARRIED = "_logdriven_metadata"
"""The column with Spark's facts about the file of a row, where the hidden one would be lost."""
_MOST_PATHS = 1_000
"""The maximum number of files that Spark is given by name; more are faster by their folder."""
_FILE_FACTS = {"file_size": "bigint", "file_modification_time": "timestamp", "row_index": "bigint"}
"""Types of the facts about files that are not texts."""


class FilesReader(Reader):
    """Common base of the readers of files."""

    def file_names(
        self, reading: Reading, source: FilesSource, frame: "DataFrame"
    ) -> tuple[str, ...]:
        """Return base names of the source's files, as many as `job_log.current_file` holds."""
        if reading.table.incremental.registers_files:
            return _file_names(frame)
        key = build_cache_key(reading, source)
        found = reading.listed.find_files(key.path)
        return reading.sources.names(key, found, lambda: _file_names(frame))

    def select_existing(self, reading: Reading, source: FilesSource) -> FilesSource | None:
        if reading.table.incremental.registers_files:
            return source
        paths = render_paths(source.path, reading.run, reading.project)
        if len(paths) == 1 and source.missing_files == "fail":
            return source  # Spark itself reports that it does not exist
        existing = [path for path in paths if has_files(reading.project, path)]
        if source.missing_files != "no_rows" and len(existing) < len(paths):
            missing = [path for path in paths if path not in existing]
            more = f" and {len(missing) - 1} more" if len(missing) > 1 else ""
            raise TerminalStepError(
                f"{missing[0]}{more}: no files for {reading.run.window}; put them there, or set "
                "missing_files: no_rows"
            )
        if not existing and source.columns is None:
            raise TerminalStepError(
                f"{paths[0]}: there are no files for {reading.run.window}, and so no columns; "
                "set columns"
            )
        return source.model_copy(update={"path": build_pattern(existing)}) if existing else None

    def fingerprint(self, reading: Reading, source: FilesSource) -> FileVersions | None:
        # List the files again: one may have arrived since the last window.
        key = build_cache_key(reading, source)
        if is_remote(key.path):
            return list_remote_versions(reading, source, key)
        return reading.listed.find_versions(key.path)

    def list_files(
        self, reading: Reading, source: FilesSource, files: FileVersions
    ) -> FileVersions | None:
        mode = mode_of(reading.spark)
        if not mode.capabilities.has_input_file_name:
            return None
        key = build_cache_key(reading, source)
        if (data := files_below(reading, key)) and (
            names := self._own_columns(reading, source, data)
        ):
            if METADATA in {*map(str.lower, names), *_values(reading, key, data)}:
                return None
            paths = {path for path, _, _ in data}
            return frozenset(version for version in files if version.path in paths)
        frame = self.whole(reading, source)
        if METADATA in map(str.lower, frame.columns):
            return None  # the file's own column hides Spark's
        read = set(map(plain_location, mode.input_files(frame)))
        found = frozenset(version for version in files if version.path in read)
        return found if len(found) == len(read) else None

    def _own_columns(self, reading: Reading, source: Any, files: Fingerprint) -> Collection[str]:
        """Return the columns in the files of a source; empty if only Spark can find them."""
        _ = files
        if not source.columns:
            return ()
        return mode_of(reading.spark).parse_columns(source.columns).fieldNames()

    def add_file_columns(
        self, reading: Reading, source: FilesSource, frame: "DataFrame"
    ) -> "DataFrame":
        if not source.file_columns:
            return frame
        if reading.table.incremental.registers_files and not reading.run.files:
            return _with_null_facts(source, frame)
        names = set(map(str.lower, frame.columns))
        if same := [name for name in (METADATA, *source.file_columns) if name.lower() in names]:
            raise TerminalStepError(
                f"{source.path}: the files have a column {same[0]}, so file_columns cannot be read"
            )
        facts = _CARRIED if _CARRIED in frame.columns else METADATA
        for name, fact in source.file_columns.items():
            frame = frame.withColumn(name, sf.col(f"{facts}.{fact}"))
        return frame.drop(_CARRIED)

    def without_rows(self, reading: Reading, source: FilesSource) -> "DataFrame":
        if source.columns:
            frame = reading.spark.createDataFrame([], source.columns)
        else:
            frame = super().without_rows(reading, source)
        return _with_null_facts(source, frame)


def _with_null_facts(source: FilesSource, frame: "DataFrame") -> "DataFrame":
    for name, fact in source.file_columns.items():
        frame = frame.withColumn(name, sf.lit(None).cast(_FILE_FACTS.get(fact, "string")))
    return frame


def _carry_facts(source: FilesSource, frame: "DataFrame") -> "DataFrame":
    """Return the frame with Spark's hidden column of facts about files as a column of its own."""
    return frame.withColumn(_CARRIED, sf.col(METADATA)) if source.file_columns else frame


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
        found = footers(_local_files(reading, source) or frozenset(), source.type)
        others = [footer.path for footer in found if not footer.is_of_java]
        return without_old_days(frame, others[0]) if others else frame

    def learn_files(self, source: FileSource, files: Iterable[FileRows]) -> None:
        learn_footers(files, source.type)

    def describe_file(self, source: FileSource, version: FileVersion) -> str | None:
        return None if is_remote(version.path) else describe_footer(version, source.type)

    def may_pass(self, reading: Reading, source: FileSource, error: Exception) -> bool:
        """Return False; raise TerminalStepError for a timestamp of ORC that Java cannot read."""
        if source.type == "orc":
            found = footers(_local_files(reading, source) or frozenset(), source.type)
            files = ((path, footer.columns) for footer in found for path in footer.paths)
            if problem := find_old_fraction(error, files):
                raise TerminalStepError(problem)
        return False


class RecordsReader(FilesReader):
    """Reader of text files, whose records may be malformed."""

    def whole(self, reading: Reading, source: RecordsSource) -> "DataFrame":
        if isinstance(source, CsvSource) and not mode_of(reading.spark).capabilities.casts_on_read:
            return read_plain_csv(reading.spark, source, build_cache_key(reading, source).path)
        if not source.is_strict and find_window_doubt(source) is not None:
            return self._read_checked_times(reading, source)
        return self._read(reading, source)

    def all_rows(self, reading: Reading, source: RecordsSource) -> "DataFrame":
        """Return all rows, and a row of NULL for each record of which Spark reads only a part.

        Such a row has no time. So every window reads its file, and is refused.
        """
        if not mode_of(reading.spark).capabilities.casts_on_read:
            return super().all_rows(reading, source)
        plain = source.whole()
        if find_window_doubt(source) is None:
            rows = self._read(reading, plain)
        else:
            rows = self._read_checked_times(reading, plain)
        if not isinstance(source, JsonSource):
            return rows
        skipped = load_texts(reading, source).where(has_skipped_objects(source)).drop("value")
        return rows.unionByName(skipped, allowMissingColumns=True)

    def _read_checked_times(self, reading: Reading, source: RecordsSource) -> "DataFrame":
        """Return the rows with NULL for each time of the window column that Spark would change."""
        doubt = find_window_doubt(source)
        assert doubt is not None
        frame = self._read(reading, source.model_copy(update={"window_column": None}))
        value = sf.expr(f"CASE WHEN NOT {doubt.bad} THEN {doubt.value} END")
        return frame.withColumn(doubt.name, value)

    def _read(self, reading: Reading, source: RecordsSource) -> "DataFrame":
        if (declared := parse_declared_columns(source)) is not None:
            return load_files(reading, source, read_as(source, declared))
        frame = load_files(reading, source, None)
        refuse_inferred_times(source, frame.schema)
        # Spark returns the corrupt column only if it found some.
        columns = read_as(source, frame.schema)
        return frame if columns == frame.schema else load_files(reading, source, columns)

    def validate_frame(
        self, reading: Reading, source: RecordsSource, frame: "DataFrame"
    ) -> "DataFrame":
        if not mode_of(reading.spark).capabilities.casts_on_read:
            return frame  # every value was checked when it was read
        if source.is_strict:
            trusted = reading.sources.are_trusted(
                _of_bytes(reading, source), list_versions(reading, source)
            )
            return check_values(frame, source, decodable=trusted)
        frame, malformed = clean_malformed(frame, source, reading.windows or (reading.run.window,))
        reading.malformed.append(malformed)
        return frame

    def may_pass(self, reading: Reading, source: RecordsSource, error: Exception) -> bool:
        """Return True if a retry may succeed, because the files are not the cause of the error."""
        if not mode_of(reading.spark).capabilities.casts_on_read:
            return False
        suspect = Suspect(
            reading.spark, source, reading.run.window, lambda: self._files(reading, source)
        )
        if (problem := suspect.refusal(error)) is None:
            return False
        what, versions = _of_bytes(reading, source), list_versions(reading, source)
        trusted = reading.sources.are_trusted(what, versions)
        if UNDECODABLE in problem and not trusted and suspect.is_decodable():
            # The file contains the very character that Java substitutes for undecodable bytes.
            reading.sources.trust(what, versions)
            return True
        raise TerminalStepError(problem)

    def _files(self, reading: Reading, source: RecordsSource) -> list[str]:
        # As text, since Spark may have failed to infer the columns.
        raw = TextSource(type="text", path=source.path, options=source.options)
        return mode_of(reading.spark).input_files(load_files(reading, raw, "value STRING"))


def _of_bytes(reading: Reading, source: RecordsSource) -> Hashable:
    """Return the name of the fact that all bytes of a source's files are valid text."""
    return UNDECODABLE, build_cache_key(reading, source)


def _plan_reading(reading: Reading, source: FileSource, files: Fingerprint) -> TypedReading:
    mode, key = mode_of(reading.spark), build_cache_key(reading, source)
    declared = mode.parse_columns(source.columns) if source.columns else None
    read = _footers(reading, source, files)
    newer = ((footer.path, footer.newer) for footer in read)
    refuse_newer_features(newer, declared, reading.spark)
    folders = _values(reading, key, files)
    if hidden := column_names(read) & folders.keys():
        refuse_hidden_columns(files, _base(key), hidden, source.type)
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
        reader = reading.spark.read.format(source.type).options(**_options(source))
        reader = reader.schema(StructType([*part.schema.fields, *folders]))
        if not reading.table.incremental.registers_files:
            reader = reader.option("basePath", _base(build_cache_key(reading, source)))
        loaded = _carry_facts(source, reader.load([literal_path(path) for path in paths]))
        rows = selection.add_name(loaded)
        carried = [_CARRIED] if source.file_columns else []
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


def load_files(
    reading: Reading,
    source: Any,
    columns: "str | StructType | None",
    samples: Sequence[str] = (),
) -> "DataFrame":
    """Load the files of a source, or those of the window, with these columns.

    Without columns, Spark infers from the `samples` what it would infer from all files.
    Raises TerminalStepError for a text file that Spark cannot read.
    """
    from pyspark.errors import PySparkException

    key = build_cache_key(reading, source)
    refuse_files_too_deep(reading, key)
    if isinstance(source, RecordsSource):
        refuse_unreadable_files(reading, source, key)
    if (frame := _load_selected(reading, source, key, columns, samples)) is not None:
        return frame
    reader = reading.spark.read.format(source.type).options(**_options(source))
    if columns is not None:
        reader = reader.schema(columns)
    if not reading.table.incremental.registers_files:
        found = reading.listed.find_files(key.path)
        if source.columns is None and columns is not None:
            known = columns if isinstance(columns, str) else columns.json()
            key = key._replace(columns=f"inferred {known}")
        try:
            frame = reading.sources.load(
                key, reading.spark, reader, found, typed=columns is not None
            )
        except PySparkException:
            # Spark itself does not name the folder of a value that it cannot cast.
            _refuse_changed_folders(reading, source, key, found or ())
            raise
        frame = _with_folders(reading, source, key, frame)
        return (reading.files or ALL_FILES).apply(frame)
    if not reading.run.files:
        return reading.spark.createDataFrame([], columns or source.columns)
    return reader.load([literal_path(file.location) for file in reading.run.files])


def _load_selected(
    reading: Reading,
    source: Any,
    key: Key,
    columns: "str | StructType | None",
    samples: Sequence[str],
) -> "DataFrame | None":
    """Load the selected files, with the columns of all files; None if Spark has to list all files.

    Spark does not list the others: the cost of a window does not grow with them.
    """
    selection, files = reading.files, files_below(reading, key)
    is_inferred = columns is None and not samples and source.type != "binaryFile"
    if selection is None or not files or is_inferred:
        return None
    paths = [path for path, _, _ in files]
    chosen, base = selection.select_paths(paths), _base(key)
    typical = reading.listed.remember(
        ("typical", key.path, base), lambda: find_typical(paths, base)
    )
    if len(chosen) > min(_MOST_PATHS, len(paths) - 1) or typical is None or key.path in paths:
        return None
    values = _refuse_changed_folders(reading, source, key, files)
    shown = sorted({*samples, *typical})

    def load(paths: Sequence[str], schema: "str | StructType | None") -> "DataFrame":
        reader = reading.spark.read.format(source.type).options(**_options(source))
        reader = reader.schema(schema) if schema is not None else reader
        reader = reader if PATTERN & set(base) else reader.option("basePath", base)
        return reader.load([literal_path(path) for path in paths])

    versions = frozenset(file for file in files if file[0] in shown)
    schema = reading.sources.find_schema(
        key._replace(columns=str(columns)), versions, lambda: load(shown, columns).schema
    )
    schema = _keep_texts(reading, source, values, schema) or schema
    frame = load(chosen, schema) if chosen else load(shown[:1], schema).where("false")
    return selection.add_name(frame)


def load_paths(reading: Reading, source: FilesSource, *, details: bool = False) -> "DataFrame":
    """Load a row for each file: its `path`, and the values in the names of its folders.

    `details` adds `length` in bytes and `modificationTime`. Spark does not read the files.
    """
    listed = source.model_copy(update={"type": "binaryFile", "columns": None})
    hidden = ["content"] if details else ["content", "length", "modificationTime"]
    return _carry_facts(source, load_files(reading, listed, None)).drop(*hidden)


def load_texts(reading: Reading, source: JsonSource) -> "DataFrame":
    """Load the records as text in a column `value`; whole files if they are documents."""
    options = {**source.options, "wholetext": source.multiline}
    raw = TextSource(type="text", path=source.path, options=options)
    frame = load_files(reading, raw, "value STRING")
    if (encoding := encoding_of(source)) != "utf-8":
        text = f"decode(CAST(value AS BINARY), {text_literal(encoding)})"
        frame = frame.withColumn("value", sf.expr(text))
    return frame


def _with_folders(reading: Reading, source: Any, key: Key, frame: "DataFrame") -> "DataFrame":
    """Return the frame with the folder values as they are written in the names.

    Raises TerminalStepError for a value that the type in `columns` would change.
    """
    mode = mode_of(reading.spark)
    files = found = reading.listed.find_files(key.path)
    if files is None and not mode.capabilities.lists_files_eagerly:
        return frame  # a server would list the files again
    if files is None:
        files = frozenset((path, 0, 0) for path in mode.input_files(frame))
    values = _refuse_changed_folders(reading, source, key, files)
    if not values:
        return frame
    if is_remote(key.path) and not isinstance(source, RecordsSource):
        # Those of text are listed for their first bytes.
        remote_files(reading, source, key)
    if (schema := _keep_texts(reading, source, values, frame.schema)) is None:
        return frame
    reader = reading.spark.read.format(source.type).options(**_options(source)).schema(schema)
    key = key._replace(columns=f"folders {schema.json()}")
    return reading.sources.load(key, reading.spark, reader, found, typed=True)


def _keep_texts(
    reading: Reading, source: Any, values: Values, schema: "StructType"
) -> "StructType | None":
    """Return the schema with text for folder values that it would change; None if there are none.

    Types that the source declares are kept.
    """
    if source.columns:
        declared = mode_of(reading.spark).parse_columns(source.columns)
        names = {name.lower() for name in declared.fieldNames()}
        values = {name: texts for name, texts in values.items() if name not in names}
    return faithful(schema, values, reading.project.zone)


def _values(reading: Reading, key: Key, files: Iterable[tuple[str, int, int]]) -> Values:
    """Return the values in folder names, found once for each step."""
    base = _base(key)

    def find() -> Values:
        return values_in_folders((path for path, _, _ in files), base)

    if reading.table.incremental.registers_files:
        return find()
    return reading.listed.remember(("values", key.path, base), find)


def _refuse_changed_folders(
    reading: Reading, source: Any, key: Key, files: Iterable[tuple[str, int, int]]
) -> Values:
    """Return the values in folder names; TerminalStepError for one that its type would change."""
    values = _values(reading, key, files)
    if values and source.columns:
        declared = mode_of(reading.spark).parse_columns(source.columns)
        refuse_changed_values(declared, values, reading.project.zone)
    return values


def _base(key: Key) -> str:
    """Return the path below which folder names are columns."""
    given = {name.lower(): value for name, value in key.options}
    return given.get("basepath", key.path)


def _options(source: FilesSource) -> dict[str, str]:
    """Return the options of Spark's file reader: the defaults, overridden by the user's."""
    if isinstance(source, RecordsSource):
        return record_options(source)
    return option_texts(source.options)


def list_versions(reading: Reading, source: Any) -> frozenset[Hashable] | None:
    """Return the versions of the files that a window reads; None if they are not known."""
    if reading.run.files:
        return frozenset(reading.run.files)
    key = build_cache_key(reading, source)
    if is_remote(key.path):
        if PATTERN & set(key.path):
            return None  # Spark also reads the files of folders that a pattern matches
        return frozenset(remote_files(reading, source, key)) or None
    found = reading.listed.find_files(key.path)
    if found is None or reading.files is None:
        return found
    chosen = set(reading.files.select_paths(path for path, _, _ in found))
    return frozenset(version for version in found if version[0] in chosen)


def build_cache_key(reading: Reading, source: Any) -> Key:
    """Return the key of a source's files in the cache of known sources."""
    path = without_hidden(render_path(source.path, reading.run, reading.project))
    return Key(path, source.type, source.columns, tuple(sorted(_options(source).items())))


def _file_names(frame: "DataFrame") -> tuple[str, ...]:
    from urllib.parse import unquote

    paths = mode_of(frame.sparkSession).input_files(frame)
    names = sorted({unquote(path.rsplit("/", 1)[-1]) for path in paths})
    starts = accumulate((len(name) + 1 for name in names), initial=0)  # each with a comma
    last = CURRENT_FILE_LENGTH + 1  # a name that no longer fits shows that some are missing
    return tuple(name for name, start in zip(names, starts, strict=False) if start <= last)
