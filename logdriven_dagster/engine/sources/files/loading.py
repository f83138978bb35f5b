"""Loading of files as frames: all files of a source, or those that a window selects."""

from collections.abc import Hashable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from logdriven_dagster.config.locations import is_remote
from logdriven_dagster.config.models.types.files import (
    FilesSource,
    JsonSource,
    RecordsSource,
    TextSource,
)
from logdriven_dagster.engine.queries.quoting import text_literal
from logdriven_dagster.engine.queries.rendering import render_path
from logdriven_dagster.engine.sources.file_rows import ALL_FILES, METADATA
from logdriven_dagster.engine.sources.files.folders import (
    Values,
    faithful,
    find_typical,
    refuse_changed_values,
    values_in_folders,
)
from logdriven_dagster.engine.sources.files.listing import (
    files_below,
    refuse_files_too_deep,
    remote_files,
    without_hidden,
)
from logdriven_dagster.engine.sources.files.records import record_options
from logdriven_dagster.engine.sources.files.text_files import refuse_unreadable_files
from logdriven_dagster.engine.sources.files.texts import encoding_of
from logdriven_dagster.engine.sources.known_sources import PATTERN, Key
from logdriven_dagster.engine.sources.readers import Reading
from logdriven_dagster.engine.spark import functions as sf
from logdriven_dagster.engine.spark.modes import mode_of
from logdriven_dagster.engine.spark.settings import option_texts
from logdriven_dagster.engine.storage.locations import literal_path

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType


CARRIED = "_logdriven_metadata"
"""The column with Spark's facts about the file of a row, where the hidden one would be lost."""
_MOST_PATHS = 100_000
"""The maximum number of files that Spark is given by name: it lists more by a job of its own."""


def carry_facts(source: FilesSource, frame: "DataFrame") -> "DataFrame":
    """Return the frame with Spark's hidden column of facts about files as a column of its own."""
    return frame.withColumn(CARRIED, sf.col(METADATA)) if source.file_columns else frame


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
    refuse_files_too_deep(reading, source, key)
    if isinstance(source, RecordsSource):
        refuse_unreadable_files(reading, source, key)
    if (frame := _load_selected(reading, source, key, columns, samples)) is not None:
        return frame
    reader = reading.spark.read.format(source.type).options(**build_options(source))
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
    selection, files = reading.files, files_below(reading, source, key)
    is_inferred = columns is None and not samples and source.type != "binaryFile"
    if selection is None or not files or is_inferred:
        return None
    paths = [path for path, _, _ in files]
    chosen, base = selection.select_paths(paths), find_base(key)
    typical = reading.listed.remember(
        ("typical", key.path, base), lambda: find_typical(paths, base)
    )
    if len(chosen) > min(_MOST_PATHS, len(paths) - 1) or typical is None or key.path in paths:
        return None
    values = _refuse_changed_folders(reading, source, key, files)
    shown = sorted({*samples, *typical})

    def load(paths: Sequence[str], schema: "str | StructType | None") -> "DataFrame":
        reader = reading.spark.read.format(source.type).options(**build_options(source))
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
    return carry_facts(source, load_files(reading, listed, None)).drop(*hidden)


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
    reader = reading.spark.read.format(source.type).options(**build_options(source)).schema(schema)
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


def find_values(reading: Reading, key: Key, files: Iterable[tuple[str, int, int]]) -> Values:
    """Return the values in folder names, found once for each step."""
    base = find_base(key)

    def find() -> Values:
        return values_in_folders((path for path, _, _ in files), base)

    if reading.table.incremental.registers_files:
        return find()
    return reading.listed.remember(("values", key.path, base), find)


def _refuse_changed_folders(
    reading: Reading, source: Any, key: Key, files: Iterable[tuple[str, int, int]]
) -> Values:
    """Return the values in folder names; TerminalStepError for one that its type would change."""
    values = find_values(reading, key, files)
    if values and source.columns:
        declared = mode_of(reading.spark).parse_columns(source.columns)
        refuse_changed_values(declared, values, reading.project.zone)
    return values


def find_base(key: Key) -> str:
    """Return the path below which folder names are columns."""
    given = {name.lower(): value for name, value in key.options}
    return given.get("basepath", key.path)


def build_options(source: FilesSource) -> dict[str, str]:
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
    return Key(path, source.type, source.columns, tuple(sorted(build_options(source).items())))
