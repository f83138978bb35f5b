"""Folders and files below a target's own, and how Spark reads them."""

import os
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from logdriven_dagster.config.models.fields import local_folder
from logdriven_dagster.engine.spark.modes import mode_of
from logdriven_dagster.errors import TerminalStepError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

UPKEEP = 0
"""The job that stages rows which are there already; the run log counts from 1."""

_SMALL_BYTES = 4 * 1024 * 1024


def in_few_files(frame: "DataFrame") -> "DataFrame":
    """The frame in one task if all that it reads is small, since each task writes a file.

    Thousands of windows would otherwise leave as many files as cores, times thousands.
    """
    size = mode_of(frame.sparkSession).estimated_bytes(frame)
    return frame.coalesce(1) if size < _SMALL_BYTES else frame


def new_folder(parent: Path, job_id: int, what: str) -> Path:
    """A new empty folder `<job_id>-<what>`.

    A run log that started anew counts its jobs from 1 again, so the name may be taken by published
    rows; then a number makes it unique.
    """
    parent.mkdir(parents=True, exist_ok=True)
    name = f"{job_id}-{what}"
    for number in range(1, 10_000):
        folder = parent / (name if number == 1 else f"{name}.{number}")
        try:
            folder.mkdir()
        except FileExistsError:
            continue
        return folder
    raise TerminalStepError(f"{parent} is full of folders named {name}")


def local_path(text: str, field: str) -> Path:
    """The folder of a target; TerminalStepError for a URL of another file system."""
    try:
        text = local_folder(text)
    except ValueError as error:
        raise TerminalStepError(f"{field}: {error}") from None
    return Path(os.path.normpath(text))


def data_files(folder: Path) -> list[Path]:
    """The files that Spark wrote into a folder."""
    return sorted(path for path in folder.iterdir() if path.is_file() and path.name[0] not in "._")


def remove_folder(folder: str | Path) -> None:
    """Delete a folder that nobody needs any more; one that is gone already is fine."""
    shutil.rmtree(folder, ignore_errors=True)


def read_files(
    spark: "SparkSession",
    form: str,
    files: Sequence[str],
    schema: "StructType",
    options: Mapping[str, str] | None = None,
) -> "DataFrame":
    """A frame over exactly these files; without any, an empty one that costs nothing."""
    if not files:
        return spark.createDataFrame([], schema).limit(0)
    reader = spark.read.format(form).schema(schema).options(**(options or {}))
    # The names are exact: `[1]` in a folder's name is no pattern.
    return reader.option("__globPaths__", "false").load(list(files))
