"""Formats whose values are texts: converted in Spark by the rules of strict CSV.

Each task reads the values as texts, at any depth of a column. Spark converts them where it
converts those of CSV files, so that both refuse the same texts.
"""

import zlib
from abc import abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from gzip import BadGzipFile, GzipFile
from typing import TYPE_CHECKING, Any, BinaryIO, cast

from logdriven_dagster.config.models.types.files import CsvSource
from logdriven_dagster.engine.queries.nested_values import any_leaf, sql_type
from logdriven_dagster.engine.queries.quoting import quote_name, text_literal
from logdriven_dagster.engine.sources.files.records import record_options
from logdriven_dagster.engine.sources.files.text_values import (
    MISFIT,
    Check,
    build_doubt,
    find_check,
    map_type,
)
from logdriven_dagster.engine.sources.readers import Reading
from logdriven_dagster.engine.spark.modes import mode_of
from logdriven_dagster.errors import TerminalStepError
from logdriven_dagster.plugins.formats.batches import PROBLEM, Record
from logdriven_dagster.plugins.formats.models import LibraryFilesSource
from logdriven_dagster.plugins.formats.reader import File, LibraryFilesReader

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import DataType, StructType

_FIX = "fix the file, or declare the column as STRING and convert it in sql"
_PLACE = "_logdriven_place"
"""The column with the file and place of a record."""
_TYPES = frozenset(
    {
        *("string", "boolean", "tinyint", "smallint", "int", "bigint", "float", "double"),
        *("decimal", "date", "timestamp", "timestamp_ntz"),
    }
)
_ONE_VALUE = "^[ !#-+--~]+$"
"""ASCII without the separator and quote of CSV: other texts are never numbers, days or booleans."""


class TextValuesReader(LibraryFilesReader):
    """Reader of files whose values are texts."""

    @abstractmethod
    def get_text_reader(
        self, source: Any, columns: "StructType"
    ) -> Callable[[BinaryIO, str], Iterator[Record]]:
        """Return a function that yields the records of a file, with a text for each value.

        `columns` are those of the configuration.
        """

    def get_columns(
        self, reading: Reading, source: Any, files: Callable[[], list[File]]
    ) -> "StructType":
        from pyspark.sql.types import StringType

        _ = files
        columns = _parse_columns(reading, source)
        texts = cast("StructType", map_type(columns, lambda _: StringType()))
        return texts.add(_PLACE, StringType())

    def get_record_reader(
        self, reading: Reading, source: Any, columns: "StructType"
    ) -> Callable[[BinaryIO, str], Iterator[Record]]:
        _ = columns  # those of texts
        return partial(_read_records, self.get_text_reader(source, _parse_columns(reading, source)))

    def use_declared_columns(
        self, reading: Reading, source: LibraryFilesSource, frame: "DataFrame"
    ) -> "DataFrame":
        return convert_texts(frame, source, _parse_columns(reading, source))


def convert_texts(
    frame: "DataFrame", source: LibraryFilesSource, columns: "StructType"
) -> "DataFrame":
    """Return the frame with the texts of `columns` in their types.

    A text that does not fit is NULL, and `PROBLEM` has its place; in a column that selects
    rows it is an error, since the record may belong to any window.
    """
    csv = CsvSource(type="csv", path=source.path, columns=source.columns)
    problems, chosen = [], []
    for field in columns.fields:
        name = quote_name(field.name)
        doubt = build_doubt(field, partial(_find_check, csv, field.name))
        if doubt is None:
            chosen.append(name)
            continue
        error = f"concat({_PLACE}, ': ', {doubt.message}, '; {_FIX}')"
        instead = f"raise_error({error})" if field.name.lower() in source.strict_names else "NULL"
        problems.append(error)
        value = f"CASE WHEN {doubt.bad} THEN {instead} ELSE {doubt.value} END"
        chosen.append(f"CAST({value} AS {sql_type(field.dataType)}) AS {name}")
    chosen.append(f"coalesce({', '.join([PROBLEM, *problems, 'NULL'])}) AS {PROBLEM}")
    known = {*columns.names, PROBLEM, _PLACE}
    others = [quote_name(name) for name in frame.columns if name not in known]
    return frame.selectExpr(*chosen, *others)


def _parse_columns(reading: Reading, source: Any) -> "StructType":
    """Return the columns of the configuration; TerminalStepError for a type that no text has."""
    columns = mode_of(reading.spark).parse_columns(source.columns)
    for field in columns.fields:
        if any_leaf("", field.dataType, _refuse_type) is not None:
            raise TerminalStepError(
                f"columns: a text cannot be {sql_type(field.dataType)}, the type of {field.name}; "
                "write STRING, and CAST it in the query"
            )
    return columns


def _refuse_type(v: str, leaf: "DataType") -> str | None:
    return None if leaf.simpleString().partition("(")[0] in _TYPES else f"{v}x"


def _find_check(csv: CsvSource, column: str, leaf: "DataType") -> Check | None:
    """Return the check of strict CSV; the parser of CSV itself is one for other types."""
    from pyspark.sql.types import StringType

    if isinstance(leaf, StringType):
        return None
    return find_check(csv, column, leaf) or _check_by_parser(csv, leaf)


def _check_by_parser(csv: CsvSource, leaf: "DataType") -> Check:
    from pyspark.sql.types import StringType

    name = sql_type(leaf)
    date_format = text_literal(record_options(csv)["dateFormat"])

    def parse(v: str) -> str:
        one = f"CASE WHEN {v} RLIKE '{_ONE_VALUE}' THEN {v} END"
        options = f"map('mode', 'PERMISSIVE', 'dateFormat', {date_format})"
        return f"from_csv({one}, 'v {name}', {options}).v"

    return Check(
        StringType(),
        lambda v: f"{parse(v)} IS NOT NULL",
        parse,
        lambda v: f"'holds \\'', {v}, '\\'{MISFIT} {name}'",
    )


def _read_records(
    read: Callable[[BinaryIO, str], Iterator[Record]], stream: BinaryIO, file: str
) -> Iterator[Record]:
    """Yield the records of a file with their places as a value."""
    with _open_text(stream, file) as text:
        for record in read(text, file):
            yield record._replace(values={**record.values, _PLACE: f"{file}, {record.place}"})


@contextmanager
def _open_text(stream: BinaryIO, file: str) -> Iterator[BinaryIO]:
    """Decompress a file whose name ends with .gz."""
    if not file.endswith(".gz"):
        yield stream
        return
    try:
        yield cast("BinaryIO", GzipFile(fileobj=stream))
    except (BadGzipFile, EOFError, zlib.error) as error:
        raise TerminalStepError(
            f"{file}: the file is not complete gzip data ({error}); write it again"
        ) from None
