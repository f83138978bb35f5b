"""Comparison of expected and found rows, regardless of their order."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Any, TypeAlias

Row: TypeAlias = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Difference:
    """Rows that differ: an expected row, a found row, or both if they are the same row changed."""

    expected: Row | None
    found: Row | None

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns in which both rows differ; empty for a missing or unexpected row."""
        if self.expected is None or self.found is None:
            return ()
        return tuple(
            name for name, value in self.expected.items() if not is_equal(value, self.found[name])
        )


@dataclass(frozen=True, slots=True)
class RowDiff:
    """The differences between expected and found rows in some columns."""

    columns: tuple[str, ...]
    expected: int
    """The number of expected rows."""
    found: int
    differences: tuple[Difference, ...]


def is_equal(one: Any, other: Any) -> bool:
    """Return True if two values are equal; floating-point numbers may differ in the last digits."""
    if isinstance(one, float) and isinstance(other, float):
        return (math.isnan(one) and math.isnan(other)) or math.isclose(one, other, rel_tol=1e-9)
    if isinstance(one, datetime) and isinstance(other, datetime) and one.tzinfo is not None:
        # In one time zone, Python compares clocks, which show an hour twice in autumn.
        return one.astimezone(timezone.utc) == other.astimezone(timezone.utc)
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        return one.keys() == other.keys() and all(is_equal(one[k], other[k]) for k in one)
    if isinstance(one, (list, tuple)) and isinstance(other, (list, tuple)):
        return len(one) == len(other) and all(map(is_equal, one, other))
    return bool(one == other)


def compare_rows(
    expected: Sequence[Row], found: Sequence[Row], columns: Sequence[str], key: Sequence[str] = ()
) -> RowDiff:
    """Compare rows in some columns.

    Rows that differ are paired by `key`, or else with the most similar row.
    """
    wanted: list[Row] = [{name: row[name] for name in columns} for row in expected]
    left: list[Row] = [{name: row[name] for name in columns} for row in found]
    missing: list[Row] = []
    for row in wanted:
        twin = next((n for n, other in enumerate(left) if is_equal(row, other)), None)
        if twin is None:
            missing.append(row)
        else:
            del left[twin]
    pairs = list(_pair(missing, left, [name for name in key if name in columns]))
    return RowDiff(tuple(columns), len(expected), len(found), tuple(pairs))


def _pair(missing: list[Row], left: list[Row], key: Sequence[str]) -> Iterator[Difference]:
    for row in missing:
        twin = _find_twin(row, left, key)
        if twin is not None:
            left.remove(twin)
        yield Difference(row, twin)
    yield from (Difference(None, row) for row in left)


def _find_twin(row: Row, others: Sequence[Row], key: Sequence[str]) -> Row | None:
    """Return the found row that an expected row most likely means, or None."""
    if key:
        same = (o for o in others if all(is_equal(row[name], o[name]) for name in key))
        return next(same, None)
    scored = [(sum(is_equal(row[name], o[name]) for name in row), o) for o in others]
    best = max(scored, key=lambda item: item[0], default=(0, None))
    return best[1] if 2 * best[0] >= len(row) and best[0] else None
