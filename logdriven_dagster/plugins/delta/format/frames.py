"""Rows of a Delta table's files as a frame, completed from its log."""

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import unquote
from uuid import uuid4

from logdriven_dagster.config.locations import resolve_location
from logdriven_dagster.engine.queries.quoting import quote_name
from logdriven_dagster.engine.spark import functions as sf
from logdriven_dagster.engine.spark.query_plans import LOOKED_UP, SURVIVING
from logdriven_dagster.engine.storage.spark_files import FILE, read_files
from logdriven_dagster.plugins.delta.format.features import lists_deletion_vectors
from logdriven_dagster.plugins.delta.format.schema import build_stored_fields, spark_schema
from logdriven_dagster.plugins.delta.format.tables import DataFile, Snapshot, sizes

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.types import StructType

_FILE, _ROW, _KNOWN = "_delta_file", f"{SURVIVING}_row", "_delta_known"
"""Columns with the path of a row's file, the row number in it, and whether the log names it."""

_PLACE = (
    "regexp_replace(url_decode(replace(_metadata.file_path, '+', '%2B')), '^[A-Za-z0-9]+:/*', '')"
)
"""The path of a row's file, in the spelling of `_place`."""


def frame_of(
    spark: "SparkSession",
    snapshot: Snapshot,
    files: Sequence[DataFile],
    options: Mapping[str, str] | None = None,
    *,
    with_files: bool = False,
) -> "DataFrame":
    """Return the rows of these files that the table contains.

    `options` are Spark's options for the files; `with_files` adds FILE. If partition values or
    deletion vectors are added from the log, a file that the log does not name fails the query.
    """
    if not files:
        return read_files(spark, "parquet", (), snapshot.schema)
    partitions = snapshot.partition_columns
    stored = [field for field in snapshot.fields if field["name"] not in partitions]
    schema, columns = _resolve_columns(spark, snapshot, stored)
    frame = read_files(spark, "parquet", sizes(files), schema, options)
    if with_files:
        columns.append(sf.col("_metadata.file_path").alias(FILE))
    if not partitions and not lists_deletion_vectors(snapshot):
        return frame.select(columns)
    place = [sf.expr(_PLACE).alias(_FILE), sf.col("_metadata.row_index").alias(_ROW)]
    frame = frame.select(*columns, *place)
    frame = _with_partitions(spark, snapshot, files, frame)
    frame = _without_deleted(spark, snapshot, frame)
    named = [quote_name(field.name) for field in snapshot.schema.fields]
    return frame.select([*named, *([FILE] if with_files else [])])


def _resolve_columns(
    spark: "SparkSession", snapshot: Snapshot, fields: Sequence[Mapping[str, Any]]
) -> "tuple[StructType, list[Column]]":
    """Return the schema with which Spark reads files, and the columns of the table over it."""
    wanted = spark_schema(fields, snapshot.name)
    if snapshot.column_mapping == "none":
        return wanted, [sf.col(quote_name(field.name)) for field in wanted.fields]
    by: Literal["name", "id"] = "id" if snapshot.column_mapping == "id" else "name"
    if by == "id":
        spark.conf.set("spark.sql.parquet.fieldId.read.enabled", "true")
    stored = spark_schema(build_stored_fields(fields, by), snapshot.name)
    # A cast as a whole gives nested fields their names, by their positions.
    return stored, [
        sf.col(quote_name(held.name)).cast(field.dataType).alias(field.name)
        for held, field in zip(stored.fields, wanted.fields, strict=True)
    ]


def _with_partitions(
    spark: "SparkSession", snapshot: Snapshot, files: Sequence[DataFile], frame: "DataFrame"
) -> "DataFrame":
    """Add the partition columns, whose values only the log contains."""
    from pyspark.sql.types import BooleanType, StringType, StructField, StructType

    kinds = [snapshot.schema[name] for name in snapshot.partition_columns]
    values = [snapshot.bounds(field.name) for field in kinds]
    rows = [
        (_place(file.location), True, *(column[file.number][0] for column in values))
        for file in files
    ]
    fields = [StructField(_FILE, StringType()), StructField(_KNOWN, BooleanType()), *kinds]
    known = _exclude_from_counts(spark.createDataFrame(rows, StructType(fields)))
    problem = sf.concat(sf.lit(f"{snapshot.name}: its log does not name the file "), sf.col(_FILE))
    there = sf.coalesce(sf.col(_KNOWN), sf.raise_error(problem).cast("boolean"))
    return frame.join(sf.broadcast(known), _FILE, "left").where(there)


def _without_deleted(spark: "SparkSession", snapshot: Snapshot, frame: "DataFrame") -> "DataFrame":
    """Remove the rows that deletion vectors contain, by their row numbers in the files."""
    vectors = snapshot.deletion_vectors() if lists_deletion_vectors(snapshot) else ()
    gone = [
        (_place(resolve_location(unquote(file))), row)
        for file, keeps in vectors
        for row, keep in enumerate(keeps)
        if not keep
    ]
    if not gone:
        return frame
    rows = _exclude_from_counts(spark.createDataFrame(gone, f"{_FILE} STRING, {_ROW} BIGINT"))
    return frame.join(sf.broadcast(rows), [_FILE, _ROW], "left_anti")


def _exclude_from_counts(frame: "DataFrame") -> "DataFrame":
    """Mark rows that serve only for comparison, so that they do not count as rows of a source."""
    # Two observations of one query must have different names.
    return frame.observe(f"{LOOKED_UP}_{uuid4().hex}", sf.count(sf.lit(1)))


def _place(location: str) -> str:
    return re.sub("^[A-Za-z0-9]+:/*", "", location)
