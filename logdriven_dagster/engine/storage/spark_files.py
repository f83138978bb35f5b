"""Files as Spark reads them: exactly those that a table names, and by which names it knows them."""

import re
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING

from logdriven_dagster.config.locations import location_of
from logdriven_dagster.errors import TerminalStepError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

FILE = "logdriven_file"
"""The column with the path of a row's file, in Spark's spelling; see `spark_path`."""

# Java's URIs keep letters of other alphabets as they are.
_ESCAPED = re.compile(r"[^/\-_.!~*'():@&=+$,;0-9A-Za-z\u0080-\U0010ffff]")


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


def spark_path(path: str) -> str:
    """Spell a path as `_metadata.file_path` does: escaped as a URI, and `file:/` for local ones."""
    scheme, _, rest = location_of(path).partition("://")
    escaped = _ESCAPED.sub(lambda sign: f"%{ord(sign[0]):02X}", rest)
    return f"file:{escaped}" if scheme == "file" else f"{scheme}://{escaped}"


def files_named(files: Sequence[str], found: Collection[str]) -> list[str]:
    """Return the files that a query found in FILE; TerminalStepError if one is not among them."""
    hit = [file for file in files if spark_path(file) in found]
    if len(hit) != len(found):
        raise TerminalStepError(f"Spark names files as the table does not: {sorted(found)[:3]}")
    return hit
