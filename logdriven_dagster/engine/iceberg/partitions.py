"""Partitioned writes to tables of other engines, with exactly Iceberg's partition values.

Spark partitions its output by one column, which contains the partition values of a row as JSON.
Each file therefore has rows of one partition, which its folder's name identifies.
"""

import json
from base64 import b64decode
from decimal import Decimal
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from logdriven_dagster.engine.iceberg.murmur import bucket, hash_of_bytes, hash_of_long
from logdriven_dagster.engine.queries.quoting import reference
from logdriven_dagster.engine.queries.schemas import WINDOW_START
from logdriven_dagster.engine.spark import functions as sf
from logdriven_dagster.engine.storage.staging import PARTITION
from logdriven_dagster.errors import TerminalStepError, TransientStepError

if TYPE_CHECKING:
    from pyiceberg.partitioning import PartitionField
    from pyiceberg.table import Table
    from pyiceberg.table.metadata import TableMetadata
    from pyiceberg.typedef import Record
    from pyspark.sql import Column, DataFrame

_DAY = 86_400_000_000
_INTEGERS = ("int", "long")
_TIMESTAMPS = ("timestamp", "timestamptz")


def with_partition(frame: "DataFrame", table: "Table | None") -> "DataFrame":
    """Add PARTITION if the rows of one window may belong to several partitions.

    Raises TerminalStepError if a partition value cannot be computed here.
    """
    if table is None or all(field.name == WINDOW_START for field in table.spec().fields):
        return frame
    schema = table.schema()
    values = [sf.lit(str(table.spec().spec_id))]
    for field in table.spec().fields:
        name = schema.find_column_name(field.source_id)
        kind = str(schema.find_field(field.source_id).field_type)
        if name is None or (value := _value(sf.col(reference(name)), kind, field)) is None:
            raise TerminalStepError(
                f"{'.'.join(table.name())} is partitioned by {field.transform}({name}), a {kind}, "
                "which cannot be written here"
            )
        values.append(value.cast("string"))
    divided = frame.withColumn(PARTITION, sf.to_json(sf.array(*values)))
    # Otherwise each task would write a file per partition; a large partition still gets several.
    return divided.hint("rebalance", PARTITION)


def _value(column: "Column", kind: str, field: "PartitionField") -> "Column | None":
    """Return the value of a partition field as integer or text; None if unsupported."""
    from pyiceberg import transforms

    match field.transform:
        case transforms.VoidTransform():
            return sf.lit(None)
        case transforms.IdentityTransform():
            return _identity(column, kind)
        case transforms.BucketTransform(num_buckets=number):
            hashed = _hash(column, kind)
            return None if hashed is None else bucket(hashed, number)
        case transforms.TruncateTransform(width=width):
            return _truncate(column, kind, width)
        case transforms.HourTransform() if kind in _TIMESTAMPS:
            return _whole(_micros(column, kind), _DAY // 24)
        case transforms.DayTransform():
            return _days(column, kind)
        case transforms.MonthTransform():
            days = sf.date_from_unix_date(_days(column, kind).cast("int"))
            return (sf.year(days) - 1970) * 12 + sf.month(days) - 1
        case transforms.YearTransform():
            return sf.year(sf.date_from_unix_date(_days(column, kind).cast("int"))) - 1970
        case _:
            return None


def _identity(column: "Column", kind: str) -> "Column | None":
    if kind in ("string", "boolean", *_INTEGERS) or kind.startswith("decimal"):
        return column
    if kind in _TIMESTAMPS:
        return _micros(column, kind)
    if kind == "date":
        return sf.unix_date(column)
    return sf.base64(column) if kind == "binary" else None


def _hash(column: "Column", kind: str) -> "Column | None":
    if kind in ("string", "binary"):
        return hash_of_bytes(column.cast("binary"))
    if kind in _INTEGERS:
        return hash_of_long(column.cast("bigint"))
    if kind in _TIMESTAMPS:
        return hash_of_long(_micros(column, kind))
    return hash_of_long(sf.unix_date(column).cast("bigint")) if kind == "date" else None


def _truncate(column: "Column", kind: str, width: int) -> "Column | None":
    if kind in _INTEGERS:
        return column.cast("bigint") - sf.pmod(column.cast("bigint"), sf.lit(width))
    if kind == "string":
        return sf.substring(column, 1, width)
    if kind == "binary":
        return sf.base64(sf.substring(column, 1, width))
    if kind.startswith("decimal"):
        scale = int(kind.rstrip(")").rpartition(",")[2])
        return column - sf.pmod(column, sf.lit(Decimal(width).scaleb(-scale)))
    return None


def _micros(column: "Column", kind: str) -> "Column":
    """Return microseconds since 1970; times without a zone count as UTC, in any session zone."""
    if kind == "timestamptz":
        return sf.unix_micros(column)
    days = sf.unix_date(column.cast("date")).cast("bigint")
    seconds = days * 86_400 + sf.hour(column) * 3_600 + sf.minute(column) * 60
    fraction = sf.date_part(sf.lit("SECOND"), column) * 1_000_000
    return seconds * 1_000_000 + fraction.cast("bigint")


def _days(column: "Column", kind: str) -> "Column":
    if kind == "date":
        return sf.unix_date(column).cast("bigint")
    return _whole(_micros(column, kind), _DAY)


def _whole(micros: "Column", unit: int) -> "Column":
    """Return the number of whole units, rounded down; division by `/` would be inexact."""
    return sf.call_function("div", micros - sf.pmod(micros, sf.lit(unit)), sf.lit(unit))


def partition_of(metadata: "TableMetadata", path: str) -> "Record | None":
    """Return the partition of a file of a partitioned write; None for others.

    Raises TransientStepError if the table's partition spec has changed since: the rows must be
    partitioned again.
    """
    from pyiceberg.typedef import Record

    folder = path.rpartition("/")[0].rpartition("/")[2]
    if not folder.startswith(f"{PARTITION}="):
        return None
    spec, *texts = json.loads(unquote(folder.removeprefix(f"{PARTITION}=")))
    if int(spec) != metadata.default_spec_id:
        raise TransientStepError(f"{path} was written for a former partitioning of the table")
    schema = metadata.schema()
    values = []
    for field, text in zip(metadata.spec().fields, texts, strict=True):
        kind = field.transform.result_type(schema.find_field(field.source_id).field_type)
        values.append(None if text is None else _parse(str(kind), text))
    return Record(*values)


def _parse(kind: str, text: str) -> Any:
    """Parse a partition value into the form of manifests."""
    if kind == "string":
        return text
    if kind == "boolean":
        return text == "true"
    if kind == "binary":
        return b64decode(text)
    return Decimal(text) if kind.startswith("decimal") else int(text)
