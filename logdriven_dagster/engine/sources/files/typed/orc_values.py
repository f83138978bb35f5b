"""Values of ORC files that their footers do not record: NULL, digits, old fractions, skipped times.

PyArrow reads the columns in question, stripe by stripe.
"""

from collections.abc import Callable, Collection, Iterable, Iterator
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from logdriven_dagster.engine.sources.files.typed.held_types import (
    OF_ORC,
    OF_ORC_NANOS,
    Path,
    Struct,
    leaves,
    with_kinds,
)
from logdriven_dagster.engine.storage.data_files import DataFile

if TYPE_CHECKING:
    import pyarrow as pa

_OF_SPARK = b"org.apache.spark.version"
"""Metadata of files that Spark wrote, whose timestamps have no digits below a microsecond."""
OLD_FRACTION = (
    "a fraction of a second before 1970, which Java libraries may misread in ORC; write the "
    "column as text, or the file as Parquet"
)
"""PyArrow writes negative nanoseconds, with which Java fails unless it reads them as a DECIMAL."""
_OF_JAVA = "nanos > 999999999 or < 0"


def mark_nanoseconds(file: Any, columns: Struct) -> Struct:
    """Return the columns of an open file, with OF_ORC_NANOS for timestamps with more digits.

    PyArrow cannot read timestamps outside the years 1677 to 2262. They are marked, too, except in
    files of the C++ library: PyArrow and pyorc write such timestamps in microseconds.
    """
    wanted = {path for path, kind in leaves(columns) if kind == OF_ORC}
    if not wanted or _OF_SPARK in file.metadata:
        return columns
    found, unreadable = _leaves_where(_has_nanoseconds, file, columns, wanted)
    found |= set() if file.writer == "ORC_CPP" else unreadable
    marked = with_kinds(columns, lambda path, kind: OF_ORC_NANOS if path in found else kind)
    assert isinstance(marked, Struct)
    return marked


def find_empty_leaves(
    file: DataFile, columns: Struct, wanted: Collection[Path]
) -> Collection[Path]:
    """Return those of the `wanted` leaves that hold only NULL in a file."""
    from pyarrow import orc

    held = {leaf for leaf, _ in leaves(columns)} & set(wanted)
    found, unreadable = _leaves_where(_has_values, orc.ORCFile(file.open()), columns, held)
    return held - found - unreadable


def find_old_fraction(error: Exception, files: Iterable[tuple[DataFile, Struct]]) -> str | None:
    """Return the file and column with the timestamp that made Java fail with an error, if one did.

    `files` are the files that were read, with their columns.
    """
    from pyarrow import orc

    if _OF_JAVA not in str(error):
        return None
    for file, columns in files:
        times = {leaf for leaf, kind in leaves(columns) if kind == OF_ORC}
        opened = orc.ORCFile(file.open())
        found, unreadable = _leaves_where(_has_old_fractions, opened, columns, times)
        for leaf in (*sorted(found), *sorted(unreadable)):
            return f"{file.path}: column {'.'.join(leaf)} holds {OLD_FRACTION}"
    return None


@lru_cache(maxsize=10_000)
def find_skipped_time(file: DataFile, columns: Struct, zone: str) -> tuple[Path, str] | None:
    """Return a leaf with a time that the clocks of a zone skip, and the time; None without one.

    Spark reads such a time as a later one. Spark itself does not write it.
    """
    from pyarrow import orc

    opened, seen = orc.ORCFile(file.open()), []

    def has_skipped(array: "pa.Array") -> bool:
        skipped = _skipped_times(array, zone)
        seen.extend(skipped)
        return bool(skipped)

    for leaf, kind in leaves(columns):
        if kind in (OF_ORC, OF_ORC_NANOS) and _OF_SPARK not in opened.metadata:
            found, _ = _leaves_where(has_skipped, opened, columns, {leaf})
            if found:
                return leaf, seen[0]
    return None


def _skipped_times(array: "pa.Array", zone: str) -> list[str]:
    """Return up to one time of an array without a zone that the clocks of a zone skip."""
    import pyarrow as pa
    from pyarrow import compute

    if array.type.tz is not None:
        return []
    times = array.cast(pa.timestamp("us"), safe=False)
    instants = compute.assume_timezone(times, zone, ambiguous="earliest", nonexistent="latest")
    skipped = times.filter(compute.not_equal(compute.local_timestamp(instants), times))
    return [str(skipped[0])] if len(skipped) else []


def _leaves_where(
    condition: "Callable[[pa.Array], bool]", file: Any, columns: Struct, wanted: Collection[Path]
) -> tuple[set[Path], set[Path]]:
    """Return the wanted leaves that meet a condition in any stripe, and those PyArrow cannot read.

    A leaf of which PyArrow can read some stripes may be in both.
    """
    import pyarrow as pa

    found: set[Path] = set()
    unreadable: set[Path] = set()
    for name, held in columns.fields:
        paths = [path for path, _ in leaves(held, (name.lower(),))]
        left = set(paths) & set(wanted)
        for number in range(file.nstripes):
            if not left:
                break
            try:
                column = file.read_stripe(number, columns=[name]).column(0)
            except pa.ArrowInvalid:
                unreadable |= left
                continue
            arrays = zip(paths, leaf_arrays(column), strict=True)
            more = {path for path, array in arrays if path in left and condition(array)}
            found, left = found | more, left - more
    return found, unreadable


def leaf_arrays(array: "pa.Array") -> "Iterator[pa.Array]":
    """Yield the values of each leaf within an array of ORC or Parquet, in the order of `leaves`."""
    import pyarrow as pa

    if pa.types.is_struct(array.type):
        for part in array.flatten():
            yield from leaf_arrays(part)
    elif pa.types.is_map(array.type):
        yield from leaf_arrays(array.keys)
        yield from leaf_arrays(array.items)
    elif pa.types.is_list(array.type):
        yield from leaf_arrays(array.flatten())
    else:
        yield array


def _has_nanoseconds(array: "pa.Array") -> bool:
    import pyarrow as pa

    try:
        array.cast(pa.timestamp("us", array.type.tz))
    except pa.ArrowInvalid:
        return True
    return False


def _has_values(array: "pa.Array") -> bool:
    return int(array.null_count) < len(array)


def _has_old_fractions(array: "pa.Array") -> bool:
    import pyarrow as pa
    from pyarrow import compute

    times = array.cast(pa.timestamp("ns")).cast(pa.int64())
    old = times.filter(compute.less(times, 0))
    seconds = compute.multiply(compute.divide(old, 1_000_000_000), 1_000_000_000)
    return bool(compute.any(compute.not_equal(old, seconds)).as_py())
