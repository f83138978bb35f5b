"""Whether the Parquet or ORC files of a source still have the columns of those before them.

Spark takes the schema of one file: a column that another one lacks is NULL there, and one that only
another one has is not there at all.
"""

from collections.abc import Iterable, Mapping
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from logdriven_dagster.engine.sources.known_sources import Fingerprint
from logdriven_dagster.errors import TerminalStepError

if TYPE_CHECKING:
    from pyspark.sql.types import StructType


def columns_differ(files: Fingerprint, form: str, columns: Iterable[str] = ()) -> bool:
    """Whether not all files have the same columns, so that Spark has to look at each of them.

    TerminalStepError for a column that a file lacks and an older one has, and for those of
    `columns` that no file has.
    """
    known = _columns_of_files(files, form)
    seen: dict[str, str] = {}
    for path, names in known.items():
        if lost := [name for name in seen if name not in names]:
            older = seen[lost[0]]
            raise TerminalStepError(
                f"{path}: the file has no column {', '.join(lost)}, which {older} has; mend it, or "
                "say missing_columns: allow for the table, and it is NULL there"
            )
        seen |= {name: path for name in names if name not in seen}
    if known and (missing := [name for name in columns if name.lower() not in seen]):
        raise TerminalStepError(f"columns names {', '.join(missing)}, which no file has")
    return len(set(known.values())) > 1


def refuse_other_columns(files: Iterable[Path], columns: "StructType") -> None:
    """TerminalStepError for a Parquet file that does not have these columns with these types.

    For an engine that would convert the values in silence.
    """
    from pyspark.sql.pandas.types import to_arrow_type

    for path in files:
        stat = path.stat()
        found = _types(str(path), stat.st_size, stat.st_mtime_ns)
        for field in columns.fields:
            wanted = str(to_arrow_type(field.dataType, timezone="UTC"))
            if found.get(field.name) != wanted:
                held = found.get(field.name, "not there")
                raise TerminalStepError(
                    f"{path}: the column {field.name} is {held} in the file and "
                    f"{field.dataType.simpleString()} in `columns`, which Sail would convert in "
                    "silence; name the file's own type, and CAST in the query"
                )


@lru_cache(maxsize=100_000)
def _types(path: str, _size: int, _changed: int) -> Mapping[str, str]:
    """Read the types of the columns, cached for each version of a file."""
    import pyarrow as pa
    import pyarrow.parquet

    try:
        file = pa.parquet.read_metadata(path)
    except (OSError, pa.ArrowException) as error:
        raise TerminalStepError(f"cannot read the file {path}: {error}") from None
    if any(name.startswith(b"org.apache.spark.legacy") for name in file.metadata or ()):
        raise TerminalStepError(f"{path}: days of the Julian calendar are not proven on Sail")
    return {field.name: str(field.type) for field in file.schema.to_arrow_schema()}


def _columns_of_files(files: Fingerprint, form: str) -> Mapping[str, frozenset[str]]:
    """Path → the names of its columns, in small letters; the oldest file first."""
    found = {}
    for path, size, changed in sorted(files, key=lambda file: (file[2], file[0])):
        # Spark's rule: writers keep their own files under such names.
        if size and not Path(path).name.startswith(("_", ".")):
            names = _columns(path, size, changed, form)
            if names is not None:
                found[path] = names
    return found


@lru_cache(maxsize=100_000)
def _columns(path: str, _size: int, _changed: int, form: str) -> frozenset[str] | None:
    """Read the footer, cached for each version of a file; None for what Spark will refuse."""
    import pyarrow as pa
    import pyarrow.orc
    import pyarrow.parquet

    try:
        schema = pa.parquet.read_schema(path) if form == "parquet" else pa.orc.ORCFile(path).schema
    except (OSError, pa.ArrowException):
        return None
    return frozenset(name.lower() for name in schema.names)
