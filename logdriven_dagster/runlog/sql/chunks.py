"""Parts of long lists: databases limit the number of values in one statement."""

from collections.abc import Iterator, Sequence
from typing import TypeVar

T = TypeVar("T")
VALUES = 10_000
"""The number of values in one statement; SQLite takes 32,766."""
LOOKED_UP = 100
"""The number of rows looked up by an index at once; for more PostgreSQL would read a whole log."""
QUERIES = 400
"""The number of queries that are joined into one; SQLite takes 500."""


def split_into_chunks(items: Sequence[T], size: int = VALUES) -> Iterator[Sequence[T]]:
    """Yield the items in their order, at most `size` at a time."""
    for start in range(0, len(items), size):
        yield items[start : start + size]
