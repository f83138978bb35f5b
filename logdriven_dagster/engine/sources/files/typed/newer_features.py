"""Features of Parquet and ORC files that older versions of Spark cannot read."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

from logdriven_dagster.engine.sources.files.typed.held_types import Path, Struct, leaves
from logdriven_dagster.engine.spark.errors import FIX_OF_SPLIT, VECTORIZED_READER
from logdriven_dagster.errors import TerminalStepError

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession
    from pyspark.sql.types import StructField, StructType

Features: TypeAlias = frozenset[tuple[Path, str]]
"""The leaves of a file with features that some versions of Spark lack: path and feature."""

_VARIANT, _SPLIT, _INSTANT = "variant", "BYTE_STREAM_SPLIT", "instant"
_BYTES = ("geometry", "geography")
"""Features of columns that can be read as BINARY."""


@dataclass(frozen=True, slots=True)
class _Feature:
    name: str
    fix: str
    since: tuple[int, int]
    """The first version of Spark that reads the feature."""
    opens_since: tuple[int, int] = (4, 0)
    """The first version that reads other columns of a file with the feature."""


_FEATURES = {
    _VARIANT: _Feature(
        "type VARIANT of Parquet", "write it as text", since=(4, 1), opens_since=(4, 1)
    ),
    **{
        kind: _Feature(
            f"type {kind.upper()}",
            "write it as bytes (DuckDB: GEOPARQUET_VERSION V1)",
            since=(4, 2),
            opens_since=(4, 1),
        )
        for kind in _BYTES
    },
    _SPLIT: _Feature(
        "encoding BYTE_STREAM_SPLIT",
        FIX_OF_SPLIT,
        since=(4, 3),
    ),
    _INSTANT: _Feature(
        "ORC type timestamp with local time zone",
        "write the file as Parquet",
        since=(4, 2),
        opens_since=(4, 2),
    ),
}


def find_newer_features(found: Any, columns: Struct, parts: Struct) -> Features:
    """Return the features of a file that older versions of Spark lack.

    Args:
        found: PyArrow's metadata of the file.
        columns: The columns of the file.
        parts: The columns with the parts of each VARIANT.
    """
    kinds = [(path, kind) for path, kind in leaves(columns) if kind in _FEATURES]
    if any(kind == _VARIANT for _, kind in kinds) and "(Variant(" not in str(found.schema):
        # Spark 4.0 writes the parts of a VARIANT without its type, and reads them.
        kinds = [(path, kind) for path, kind in kinds if kind != _VARIANT]
    groups = list(map(found.row_group, range(found.num_row_groups)))
    split = [
        (path, _SPLIT)
        for number, (path, _) in enumerate(leaves(parts))
        if any(_SPLIT in group.column(number).encodings for group in groups)
    ]
    return frozenset([*kinds, *split])


def find_orc_instants(schema: "pa.Schema") -> Features:
    """Return the columns of an ORC file that contain timestamps with a time zone."""
    return frozenset(
        ((field.name.lower(),), _INSTANT) for field in schema if _holds_instants(field.type)
    )


def _holds_instants(kind: "pa.DataType") -> bool:
    import pyarrow as pa

    if pa.types.is_timestamp(kind):
        return kind.tz is not None
    return any(_holds_instants(kind.field(number).type) for number in range(kind.num_fields))


def refuse_newer_features(
    files: Iterable[tuple[str, Features]], columns: "StructType | None", spark: "SparkSession"
) -> None:
    """Raise TerminalStepError for columns that the session's version of Spark cannot read.

    `files` are paths of files with their features. Columns that `columns` does not name are not
    read, but some features prevent a version from opening the file.
    """
    declared = None if columns is None else {each.name.lower(): each for each in columns.fields}
    for file, features in files:
        for feature in sorted({feature for _, feature in features}):
            known = _FEATURES[feature]
            paths = sorted(path for path, held in features if held == feature)
            read = [path for path in paths if _is_read(path, feature, declared)]
            version, needed = _version_of(spark), known.since if read else known.opens_since
            if version >= needed or (feature == _SPLIT and not _is_vectorized(spark)):
                continue
            one, effect = len(read or paths) == 1, ""
            if version < known.opens_since:
                effect = ", nor open the file"
            names = ", ".join(".".join(path) for path in read or paths)
            raise TerminalStepError(
                f"{file}: the column{'' if one else 's'} {names} {'has' if one else 'have'} the "
                f"{known.name}, which Spark {spark.version} cannot read{effect}; {known.fix}, or "
                f"use Spark {'.'.join(map(str, needed))} or newer"
            )


def _is_read(path: Path, feature: str, declared: "Mapping[str, StructField] | None") -> bool:
    if declared is None:
        return True
    if (field := declared.get(path[0])) is None:
        return False
    return not (feature in _BYTES and len(path) == 1 and field.dataType.typeName() == "binary")


def _version_of(spark: "SparkSession") -> tuple[int, ...]:
    return tuple(map(int, spark.version.split(".")[:2]))


def _is_vectorized(spark: "SparkSession") -> bool:
    return spark.conf.get(VECTORIZED_READER) != "false"
