"""Folders that jobs stage rows in, and how Spark reads the files there."""

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from logdriven_dagster.engine.storage.locations import storage_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

UPKEEP = 0
"""The job that stages rows which are there already; the run log counts from 1."""

STAGED = re.compile(r"(\d+)-.+")
"""The names of staging folders, which begin with the job."""


def staging_folder(parent: str, job_id: int, what: str) -> str:
    """Return a new empty folder below `parent` for what a job writes."""
    return storage_of(parent).new_folder(parent, f"{job_id}-{what}")


def read_files(
    spark: "SparkSession",
    form: str,
    files: Sequence[str],
    schema: "StructType",
    options: Mapping[str, str] | None = None,
) -> "DataFrame":
    """Return a frame over exactly these files; without any, an empty one that costs nothing."""
    if not files:
        return spark.createDataFrame([], schema).limit(0)
    reader = spark.read.format(form).schema(schema).options(**(options or {}))
    # The names are exact: `[1]` in a folder's name is no pattern.
    return reader.option("__globPaths__", "false").load(list(files))
