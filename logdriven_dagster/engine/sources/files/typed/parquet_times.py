"""Times in Parquet files that the types of the footer do not describe fully.

INT96 does not record whether it is an instant: Java libraries store instants, PyArrow and
fastparquet also times without a zone. Spark cuts off its digits below a microsecond. DuckDB stores
infinity as the greatest number of a type.
"""

import base64
import json
from collections.abc import Collection, Iterator, Mapping
from itertools import product
from typing import TYPE_CHECKING, Any

from logdriven_dagster.engine.sources.files.typed.held_types import (
    LOST_DIGITS,
    OF_96_BITS,
    OF_96_BITS_NTZ,
    UNKNOWN_96_BITS,
    WITH_INFINITY,
    Path,
    Struct,
    can_be_infinite,
    leaves,
    with_kinds,
)
from logdriven_dagster.engine.sources.files.typed.orc_values import leaf_arrays
from logdriven_dagster.engine.storage.data_files import DataFile

if TYPE_CHECKING:
    import pyarrow as pa

_OF_SPARK = b"org.apache.spark.version"
_OF_JAVA, _OF_DUCKDB = "parquet-mr", "DuckDB"
_GREATEST = {"INT32": 2**31 - 1, "INT64": 2**63 - 1}


def mark_times(file: DataFile, found: Any, columns: Struct) -> Struct:
    """Return the columns of a file, with the kinds of times that their types leave open.

    `found` is PyArrow's metadata of the file, whose leaves are those of `columns`. PyArrow also
    reads the INT96 columns, which have no statistics, unless Spark wrote them.
    """
    held = list(leaves(columns))
    writer = str(found.created_by)
    kinds: dict[Path, str] = {}
    of_96_bits = {path for path, kind in held if kind == OF_96_BITS}
    if not writer.startswith(_OF_JAVA) and of_96_bits:
        kinds = _kinds_of_96_bits(found.metadata or {}, held)
    if writer.startswith(_OF_DUCKDB):
        kinds |= {
            path: kind + WITH_INFINITY
            for number, (path, kind) in enumerate(held)
            if can_be_infinite(kind) and _has_infinity(found, number)
        }
    if of_96_bits and _OF_SPARK not in (found.metadata or {}):
        kinds |= dict.fromkeys(_find_lost_digits(file, columns, of_96_bits), LOST_DIGITS)
    if not kinds:
        return columns
    marked = with_kinds(columns, kinds.get)
    assert isinstance(marked, Struct)
    return marked


def _find_lost_digits(file: DataFile, columns: Struct, wanted: Collection[Path]) -> set[Path]:
    """Return those of the `wanted` INT96 leaves that have digits below a microsecond."""
    from pyarrow import parquet

    found: set[Path] = set()
    names = [name for name, _ in columns.fields if any(leaf[0] == name.lower() for leaf in wanted)]
    in_nanos, in_micros = (
        parquet.ParquetFile(file.open(), coerce_int96_timestamp_unit=unit) for unit in ("ns", "us")
    )
    for group, (name, held) in product(range(in_nanos.num_row_groups), columns.fields):
        if name in names:
            parts = (each.read_row_group(group, columns=[name]) for each in (in_nanos, in_micros))
            arrays = (leaf_arrays(part.column(0).combine_chunks()) for part in parts)
            own = (leaf for leaf, _ in leaves(held, (name.lower(),)))
            found |= {
                leaf
                for leaf, nanos, micros in zip(own, *arrays, strict=True)
                if leaf in wanted and _has_nanoseconds(nanos, micros)
            }
    return found


def _has_nanoseconds(nanos: "pa.Array", micros: "pa.Array") -> bool:
    """Return True if any time has digits below a microsecond.

    `nanos` wraps around outside the years 1677 to 2262, and `micros` does not.
    """
    import pyarrow as pa
    from pyarrow import compute

    whole, cut = nanos.cast(pa.int64()), micros.cast(pa.int64())
    rest = compute.subtract(whole, compute.multiply(cut, 1000))
    return bool(compute.any(compute.not_equal(rest, 0)).as_py())


def _has_infinity(found: Any, number: int) -> bool:
    for group in range(found.num_row_groups):
        column = found.row_group(group).column(number)
        known = column.statistics
        if known is not None and known.has_min_max:
            greatest = _GREATEST[column.physical_type]
            if greatest in (known.max_raw, -known.min_raw):
                return True
    return False


def _kinds_of_96_bits(
    metadata: Mapping[bytes, bytes], held: list[tuple[Path, str]]
) -> dict[Path, str]:
    """Return the kind of each INT96 leaf, according to the schemas of Arrow and pandas."""
    zoned: dict[Path, bool | None] = dict(_by_pandas(metadata))
    if stored := metadata.get(b"ARROW:schema"):
        zoned |= dict(zip((path for path, _ in held), _by_arrow(stored), strict=False))
    kinds = {True: OF_96_BITS, False: OF_96_BITS_NTZ, None: UNKNOWN_96_BITS}
    return {path: kinds[zoned.get(path)] for path, kind in held if kind == OF_96_BITS}


def _by_arrow(stored: bytes) -> Iterator[bool | None]:
    """Yield for each leaf of an Arrow schema whether it has a zone; None for other types."""
    import pyarrow as pa

    schema = pa.ipc.read_schema(pa.BufferReader(base64.b64decode(stored)))
    for field in schema:
        for kind in _leaf_types(field.type):
            yield kind.tz is not None if pa.types.is_timestamp(kind) else None


def _leaf_types(kind: "pa.DataType") -> "Iterator[pa.DataType]":
    import pyarrow as pa

    kind = getattr(kind, "storage_type", kind)
    if pa.types.is_struct(kind):
        for field in kind:
            yield from _leaf_types(field.type)
    elif pa.types.is_map(kind):
        yield from _leaf_types(kind.key_type)
        yield from _leaf_types(kind.item_type)
    elif pa.types.is_dictionary(kind):
        yield kind.value_type
    elif pa.types.is_nested(kind):
        yield from _leaf_types(kind.value_type)
    else:
        yield kind


def _by_pandas(metadata: Mapping[bytes, bytes]) -> Iterator[tuple[Path, bool]]:
    """Yield the columns of times in pandas' metadata, each with whether it has a zone."""
    for column in json.loads(metadata.get(b"pandas", b"{}")).get("columns", ()):
        if column.get("pandas_type") in ("datetime", "datetimetz"):
            name = column.get("field_name") or column.get("name")
            yield (str(name).lower(),), column["pandas_type"] == "datetimetz"
