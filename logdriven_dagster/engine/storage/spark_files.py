"""Frames over exactly the files that a table names."""

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING

from logdriven_dagster.engine.storage.file_lists import OPTIONS, lists_of
from logdriven_dagster.engine.storage.locations import literal_path, spark_path
from logdriven_dagster.engine.storage.storage import FOOTERS
from logdriven_dagster.errors import TerminalStepError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

FILE = "logdriven_file"
"""The column with the path of a row's file, in Spark's spelling; see `spark_path`."""

_MOST_PATHS = 32
"""Number of files above which Spark reads a file list faster than it looks up the files."""


def read_files(
    spark: "SparkSession",
    form: str,
    files: Sequence[str] | Mapping[str, int],
    schema: "StructType",
    options: Mapping[str, str] | None = None,
) -> "DataFrame":
    """Return a frame over exactly these files; without files, an empty frame that costs nothing.

    `form` is the file format. If `files` maps locations to sizes in bytes, many files are read
    through a file list without a lookup; a missing file then fails the query that reads it.
    """
    if not files:
        return spark.createDataFrame([], schema).limit(0)
    reader = spark.read.format(form).schema(schema).options(**(options or {}))
    if len(files) > _MOST_PATHS and isinstance(files, Mapping) and form in FOOTERS:
        lists = lists_of(spark)
        if lists is not None and min(files.values()) > 0:  # Spark would skip an empty file
            return reader.options(**OPTIONS).load(lists.write_list(files))
    return reader.load([literal_path(file) for file in files])


def files_named(files: Sequence[str], found: Collection[str]) -> list[str]:
    """Return the files that a query found in FILE; raise TerminalStepError if one is unknown."""
    hit = [file for file in files if spark_path(file) in found]
    if len(hit) != len(found):
        raise TerminalStepError(
            f"Spark has other names of files than the table: {sorted(found)[:3]}"
        )
    return hit
