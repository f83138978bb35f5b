"""Merges of few rows into few Parquet files, written by Arrow with the layout of Spark's files.

A file's layout is its columns with their Parquet types and field ids, regardless of NOT NULL. Rows
are merged only if the files of both sides have one layout and Arrow would write it, too. Values of
such files have one meaning, so Spark would read and write the same ones.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from io import BytesIO
from math import isnan
from typing import TYPE_CHECKING, Any

from logdriven_dagster.engine.arrow.keys import FEW_BYTES, FILE, NEWER
from logdriven_dagster.engine.arrow.parquet import SPARK_SCHEMA
from logdriven_dagster.engine.queries.schemas import WINDOW_START
from logdriven_dagster.engine.storage.storage import Storage

if TYPE_CHECKING:
    import pyarrow as pa
    from pyarrow.parquet import FileMetaData, Statistics

_VERSION = b"org.apache.spark.version"
_METADATA = {_VERSION, SPARK_SCHEMA}
"""The metadata of a file by Spark. Further metadata may declare a calendar before 1582."""

_CODECS = {"UNCOMPRESSED": None, "SNAPPY": None, "GZIP": None, "ZSTD": 3, "LZ4": None}
"""Codec → the level of Parquet for Java, where Arrow's is another one."""
_LEGACY_TIMES, _WITH_NAN = "INT96", ("FLOAT", "DOUBLE")

_NULLABLE = ("nullable", "containsNull", "valueContainsNull")
"""The keys of NOT NULL in Spark's JSON of a schema."""

_NUMBER = "logdriven_number"


@dataclass(frozen=True, slots=True)
class MergedFile:
    """A Parquet file with remaining rows and new ones."""

    content: bytes
    codec: str
    """The codec as Spark writes it into the names of files."""


def merge_files(
    old: Sequence[str], new: Sequence[str], key: Sequence[str], end: datetime, storage: Storage
) -> list[MergedFile] | None:
    """Replace rows of old files by new rows with the same keys; return files with rows.

    A new row goes to the first file with its key, or to the smallest file, so that the bounds of
    the others still limit where a key is searched.

    Args:
        old: The table's files, without deleted rows.
        new: The files with the new rows, which Spark wrote.
        key: The key columns, whose values must be equal in Arrow if they are equal in Spark.
        end: An old row that begins here or later is by a newer window and stays.
        storage: The file system of all files.

    Returns None if Spark must merge them: there are more than FEW_BYTES without compression, a
    layout differs, another program wrote a file, or a file has INT96 or NaN.
    """
    import pyarrow as pa
    from pyarrow.parquet import ParquetFile

    first, schema, size = None, None, 0
    tables = []
    for path in (*new, *old):
        with storage.open(path) as source, ParquetFile(source) as file:
            found = file.metadata
            if first is None:
                first, schema = found, _find_merged_schema(found)
            size += sum(found.row_group(n).total_byte_size for n in range(found.num_row_groups))
            if schema is None or size > FEW_BYTES or not _can_merge(found, first, schema):
                return None
            tables.append(file.read().cast(schema))
    assert first is not None
    new_rows, codec = pa.concat_tables(tables[: len(new)]), _find_codec(first).lower()
    merged = _replace_rows(tables[len(new) :], new_rows, key, end)
    return [MergedFile(_write(rows, first), codec) for rows in merged if len(rows)]


def _find_merged_schema(first: "FileMetaData") -> "pa.Schema | None":
    """Return the schema of files like this one, without NOT NULL.

    Returns None if Arrow would write another layout, or does not know the codec.
    """
    import pyarrow as pa
    from pyarrow.parquet import read_metadata

    if set(first.metadata or {}) != _METADATA or _find_codec(first) not in _CODECS:
        return None
    schema = pa.schema(map(_relax, first.schema.to_arrow_schema()))
    written = read_metadata(BytesIO(_write(schema.empty_table(), first)))
    return schema if _describe_layout(written) == _describe_layout(first) else None


def _can_merge(file: "FileMetaData", first: "FileMetaData", schema: "pa.Schema") -> bool:
    """Return True if Arrow reads the file as Spark does, with this schema."""
    import pyarrow as pa

    layout = _describe_layout(file)
    if set(file.metadata or {}) != _METADATA or layout != _describe_layout(first):
        return False
    found = pa.schema(map(_relax, file.schema.to_arrow_schema()))
    return (
        found.equals(schema, check_metadata=True)
        and not any(column[1] == _LEGACY_TIMES for column in layout)
        and not _may_have_nan(file)
    )


def _describe_layout(file: "FileMetaData") -> list[tuple[Any, ...]]:
    """Return path and type of each Parquet column, without its repetition."""
    columns = (file.schema.column(number) for number in range(len(file.schema)))
    return [
        (
            each.path,
            each.physical_type,
            str(each.logical_type),
            each.length,
            each.max_repetition_level,
        )
        for each in columns
    ]


def _relax(field: "pa.Field", *, nullable: bool = True) -> "pa.Field":
    """Return the field, and the fields inside of it, without NOT NULL, as Spark reads files."""
    import pyarrow as pa

    kind = field.type
    if pa.types.is_struct(kind):
        kind = pa.struct([_relax(kind.field(number)) for number in range(kind.num_fields)])
    elif pa.types.is_map(kind):
        kind = pa.map_(_relax(kind.key_field, nullable=False), _relax(kind.item_field))
    elif pa.types.is_list(kind):
        kind = pa.list_(_relax(kind.value_field))
    return pa.field(field.name, kind, nullable=nullable, metadata=field.metadata)


def _may_have_nan(file: "FileMetaData") -> bool:
    """Return True if NaN is the maximum of a column, or a column lacks statistics.

    Parquet for Java writes NaN into statistics, which Spark then ignores. Arrow would write the
    maximum of the other numbers, by which Spark would skip NaN: it is greater than any number.
    """
    groups = map(file.row_group, range(file.num_row_groups))
    columns = (column for group in groups for column in map(group.column, range(group.num_columns)))
    return any(
        column.physical_type in _WITH_NAN and _is_nan_possible(column.statistics)
        for column in columns
    )


def _is_nan_possible(statistics: "Statistics | None") -> bool:
    if statistics is None:
        return True
    if not statistics.num_values:
        return False
    return not statistics.has_min_max or isnan(statistics.max_raw)


def _find_codec(file: "FileMetaData") -> str:
    return str(file.row_group(0).column(0).compression)


def _replace_rows(
    old: "Sequence[pa.Table]", new: "pa.Table", key: Sequence[str], end: datetime
) -> "list[pa.Table]":
    """Return the rows of each old file that stay, followed by new rows without a newer one."""
    import pyarrow as pa
    from pyarrow import compute

    spelled = {name.lower(): name for name in new.column_names}
    names = [spelled[name.lower()] for name in key]
    start = spelled[WINDOW_START]
    known = [_describe_keys(rows, n, (names, start, end)) for n, rows in enumerate(old)]
    matching = pa.concat_tables(known).join(new.select(names), names, join_type="left semi")
    replaced = matching.filter(compute.invert(matching[NEWER]))
    staying = matching.filter(matching[NEWER]).select(names)
    places = replaced.group_by(names).aggregate([(FILE, "min")])
    placed = _number(new.select(names)).join(staying, names, join_type="left anti")
    placed = placed.join(places, names, join_type="left outer")
    smallest = min(range(len(old)), key=lambda n: len(old[n]))
    files = compute.fill_null(placed[f"{FILE}_min"], smallest)
    merged = []
    for number, rows in enumerate(old):
        gone = replaced.filter(compute.equal(replaced[FILE], number))[_NUMBER]
        added = placed.filter(compute.equal(files, number))[_NUMBER]
        kept = rows.filter(compute.invert(_find_rows(rows, gone)))
        merged.append(pa.concat_tables([kept, new.filter(_find_rows(new, added))]))
    return merged


def _describe_keys(
    rows: "pa.Table", file: int, of: tuple[Sequence[str], str, datetime]
) -> "pa.Table":
    """Return the keys of a file, the numbers of file and row, and whether the row is newer.

    `of` are the names of the key columns, the column with the window of a row, and the end of the
    window that is merged.
    """
    import pyarrow as pa
    from pyarrow import compute

    names, start, end = of
    starts = rows[start]
    newer = compute.fill_null(compute.greater_equal(starts, pa.scalar(end, starts.type)), False)  # noqa: FBT003 - a value
    files = pa.repeat(pa.scalar(file, pa.int32()), len(rows))
    return _number(rows.select(names)).append_column(NEWER, newer).append_column(FILE, files)


def _number(rows: "pa.Table") -> "pa.Table":
    """Add the number of each row, since a join does not keep their order."""
    import pyarrow as pa

    return rows.append_column(_NUMBER, pa.array(range(len(rows)), pa.int64()))


def _find_rows(rows: "pa.Table", numbers: "pa.ChunkedArray") -> "pa.Array":
    """Return a mask of the rows with these numbers."""
    import pyarrow as pa
    from pyarrow import compute

    every = pa.array(range(len(rows)), pa.int64())
    return compute.is_in(every, value_set=numbers.combine_chunks())


def _write(rows: "pa.Table", like: "FileMetaData") -> bytes:
    """Return a Parquet file with the codec and the metadata of a file by Spark."""
    from pyarrow.parquet import ParquetWriter

    sink, codec = BytesIO(), _find_codec(like)
    options: dict[str, Any] = {
        "compression": "NONE" if codec == "UNCOMPRESSED" else codec,
        "compression_level": _CODECS.get(codec),
        "store_schema": False,
        "store_decimal_as_integer": True,
    }
    described = {**like.metadata, SPARK_SCHEMA: _relax_json(like.metadata[SPARK_SCHEMA])}
    with ParquetWriter(sink, rows.schema, **options) as writer:
        writer.write_table(rows)
        writer.add_key_value_metadata(described)
    return sink.getvalue()


def _relax_json(schema: bytes) -> str:
    """Return a schema of Spark as JSON, without NOT NULL at any depth."""

    def relax(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        return {name: True if name in _NULLABLE else value for name, value in pairs}

    return json.dumps(json.loads(schema, object_pairs_hook=relax), separators=(",", ":"))
