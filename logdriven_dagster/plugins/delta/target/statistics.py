"""Column statistics in commits, read from Parquet footers, so that readers can skip files.

Statistics may be incomplete, but never wrong: a truncated text is still no greater than the
minimum, or no less than the maximum.
"""

import json
import math
from collections.abc import Iterator
from datetime import date, datetime, timedelta
from decimal import Decimal
from os import SEEK_END
from typing import Any, NamedTuple

from logdriven_dagster.engine.storage.storage import Storage

_LONGEST_TEXT = 32
_LAST = "\U0010ffff"
"""The greatest character: appended to a truncated text, it sorts after every text with that prefix.
"""
_EXACT_DIGITS = 15
"""Decimal numbers with more digits change when they are read as floating-point numbers."""


class Statistics(NamedTuple):
    """Size, row count and column statistics of a file, as a commit records them."""

    bytes: int
    rows: int
    text: str
    """The column statistics as JSON."""


def statistics(location: str, storage: Storage) -> Statistics:
    """Return the size and row count of a Parquet file, and the statistics in its footer."""
    from pyarrow.parquet import read_metadata

    with storage.open(location) as file:
        size = file.seek(0, SEEK_END)
        footer = read_metadata(file)
    least: dict[str, Any] = {}
    greatest: dict[str, Any] = {}
    nulls: dict[str, Any] = {}
    for number, place in enumerate(_leaves(footer.schema.to_arrow_schema())):
        if place is not None:
            chunks = [
                footer.row_group(group).column(number).statistics
                for group in range(footer.num_row_groups)
            ]
            _note(place, chunks, least, greatest, nulls)
    statistics: dict[str, Any] = {"numRecords": footer.num_rows}
    if footer.num_rows:
        statistics |= {"minValues": least, "maxValues": greatest, "nullCount": nulls}
    return Statistics(size, footer.num_rows, json.dumps(statistics))


def column_names(location: str, storage: Storage) -> list[str]:
    """Return the names of the columns of a Parquet file."""
    from pyarrow.parquet import read_schema

    with storage.open(location) as file:
        return list(read_schema(file).names)


def _leaves(fields: Any) -> Iterator[tuple[str, ...] | None]:
    """Yield the path of each Parquet column in the table; None within lists and maps."""
    for field in fields:
        yield from _leaves_of(field.type, (field.name,))


def _leaves_of(kind: Any, place: tuple[str, ...] | None) -> Iterator[tuple[str, ...] | None]:
    from pyarrow import types

    if types.is_map(kind):
        yield from _leaves_of(kind.key_type, None)
        yield from _leaves_of(kind.item_type, None)
    elif types.is_list(kind) or types.is_large_list(kind):
        yield from _leaves_of(kind.value_type, None)
    elif types.is_struct(kind):
        for n in range(kind.num_fields):
            part = kind.field(n)
            yield from _leaves_of(part.type, None if place is None else (*place, part.name))
    else:
        yield place


def _note(
    place: tuple[str, ...],
    chunks: list[Any],
    least: dict[str, Any],
    greatest: dict[str, Any],
    nulls: dict[str, Any],
) -> None:
    if not chunks or any(each is None or not each.has_null_count for each in chunks):
        return
    _put(nulls, place, sum(each.null_count for each in chunks))
    filled = [each for each in chunks if each.num_values]
    if not filled or not all(each.has_min_max for each in filled):
        return
    try:
        low, high = min(each.min for each in filled), max(each.max for each in filled)
    except (OverflowError, ValueError):  # a timestamp outside Python's range
        return
    shown = _as_json(low, ""), _as_json(high, _LAST)
    if None not in shown:
        _put(least, place, shown[0])
        _put(greatest, place, shown[1])


def _put(values: dict[str, Any], place: tuple[str, ...], value: Any) -> None:
    for name in place[:-1]:
        values = values.setdefault(name, {})
    values[place[-1]] = value


def _as_json(value: Any, behind: str) -> Any:
    """Convert a value for statistics; `behind` ends truncated text. None if unsupported."""
    if isinstance(value, str):
        return value if len(value) <= _LONGEST_TEXT else value[:_LONGEST_TEXT] + behind
    if isinstance(value, (bool, bytes, timedelta)):
        return None
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Decimal):
        exact = len(value.as_tuple().digits) <= _EXACT_DIGITS and value.is_finite()
        return float(value) if exact else None
    if isinstance(value, datetime):
        instant = value.replace(tzinfo=None).isoformat(timespec="microseconds")
        return f"{instant}Z" if value.tzinfo else instant
    if isinstance(value, date):
        return value.isoformat()
    return value if isinstance(value, int) else None
