"""Readers of files: their common base, and the reader of text formats."""

from collections.abc import Collection, Hashable
from itertools import accumulate
from typing import TYPE_CHECKING, Any

from logdriven_dagster.config.locations import is_remote
from logdriven_dagster.config.models.types.files import (
    CsvSource,
    FilesSource,
    JsonSource,
    RecordsSource,
    TextSource,
)
from logdriven_dagster.engine.queries.rendering import build_pattern, render_paths
from logdriven_dagster.engine.sources.file_rows import METADATA, normalize_scheme, plain_location
from logdriven_dagster.engine.sources.files.arrivals import has_files
from logdriven_dagster.engine.sources.files.json_texts import has_skipped_objects
from logdriven_dagster.engine.sources.files.listing import files_below, list_remote_versions
from logdriven_dagster.engine.sources.files.loading import (
    CARRIED,
    build_cache_key,
    find_values,
    list_versions,
    load_files,
    load_texts,
)
from logdriven_dagster.engine.sources.files.malformed import Suspect
from logdriven_dagster.engine.sources.files.plain.csv import read_plain_csv
from logdriven_dagster.engine.sources.files.records import (
    check_values,
    clean_malformed,
    find_window_doubt,
    parse_declared_columns,
    read_as,
    refuse_inferred_times,
)
from logdriven_dagster.engine.sources.files.text_values import UNDECODABLE
from logdriven_dagster.engine.sources.known_sources import FileVersions, Fingerprint
from logdriven_dagster.engine.sources.readers import Reader, Reading
from logdriven_dagster.engine.spark import functions as sf
from logdriven_dagster.engine.spark.modes import mode_of
from logdriven_dagster.errors import TerminalStepError
from logdriven_dagster.model.attempts import CURRENT_FILE_LENGTH

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


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
        if (data := files_below(reading, source, key)) and (
            names := self._own_columns(reading, source, data)
        ):
            if METADATA in {*map(str.lower, names), *find_values(reading, key, data)}:
                return None
            paths = {normalize_scheme(path) for path, _, _ in data}
            return frozenset(version for version in files if version.path in paths)
        frame = self.whole(reading, source)
        if METADATA in map(str.lower, frame.columns):
            return None  # the file's own column hides Spark's
        read = set(map(plain_location, mode.input_files(frame)))
        found = frozenset(version for version in files if version.path in read)
        return found if len(found) == len(read) else None

    def _own_columns(
        self,
        reading: Reading,
        source: Any,
        files: Fingerprint,  # noqa: ARG002 - formats with types look into them
    ) -> Collection[str]:
        """Return the columns in the files of a source; empty if only Spark can find them."""
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
        facts = CARRIED if CARRIED in frame.columns else METADATA
        for name, fact in source.file_columns.items():
            frame = frame.withColumn(name, sf.col(f"{facts}.{fact}"))
        return frame.drop(CARRIED)

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
            reading.spark,
            source,
            reading.run.window,
            lambda: self._files(reading, source),
            reading.project.storage,
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


def _file_names(frame: "DataFrame") -> tuple[str, ...]:
    from urllib.parse import unquote

    paths = mode_of(frame.sparkSession).input_files(frame)
    names = sorted({unquote(path.rsplit("/", 1)[-1]) for path in paths})
    starts = accumulate((len(name) + 1 for name in names), initial=0)  # each with a comma
    last = CURRENT_FILE_LENGTH + 1  # a name that no longer fits shows that some are missing
    return tuple(name for name, start in zip(names, starts, strict=False) if start <= last)
