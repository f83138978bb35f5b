"""Parquet files of a source with exactly the declared columns, for engines that do not cast."""

from collections.abc import Iterable, Mapping
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from logdriven_dagster.errors import TerminalStepError

if TYPE_CHECKING:
    from pyspark.sql.types import StructType


def refuse_other_columns(files: Iterable[Path], columns: "StructType", engine: str) -> None:
    """Raise TerminalStepError for a Parquet file without exactly these columns and types.

    For an engine, named in the error, that would convert the values silently.
    """
    from pyspark.sql.pandas.types import to_arrow_type

    for path in files:
        stat = path.stat()
        found = _types(str(path), engine, stat.st_size, stat.st_mtime_ns)
        for field in columns.fields:
            wanted = str(to_arrow_type(field.dataType, timezone="UTC"))
            if found.get(field.name) != wanted:
                held = found.get(field.name, "missing")
                raise TerminalStepError(
                    f"{path}: the column {field.name} is {held} in the file and "
                    f"{field.dataType.simpleString()} in `columns`, which {engine} would convert "
                    "without an error; write the type of the file in `columns`, and CAST in "
                    "the query"
                )


@lru_cache(maxsize=100_000)
def _types(path: str, engine: str, _size: int, _changed: int) -> Mapping[str, str]:
    """Read the types of the columns, cached for each version of a file."""
    import pyarrow as pa
    import pyarrow.parquet

    try:
        file = pa.parquet.read_metadata(path)
    except (OSError, pa.ArrowException) as error:
        raise TerminalStepError(f"cannot read the file {path}: {error}") from None
    if any(name.startswith(b"org.apache.spark.legacy") for name in file.metadata or ()):
        raise TerminalStepError(
            f"{path}: days of the Julian calendar are not supported on {engine}"
        )
    return {field.name: str(field.type) for field in file.schema.to_arrow_schema()}
