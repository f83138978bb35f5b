"""Parts of long lists: databases take so many values in one statement, and no more."""

from collections.abc import Iterator, Sequence
from typing import TypeVar

T = TypeVar("T")
VALUES = 10_000
"""How many values one statement takes; SQLite takes 32,766."""
LOOKED_UP = 100
"""How many rows are looked up by an index at once; for more PostgreSQL would read a whole log."""
QUERIES = 400
"""How many queries can be joined into one; SQLite takes 500."""


def chunks(items: Sequence[T], size: int = VALUES) -> Iterator[Sequence[T]]:
    """The items in their order, at most `size` at a time."""
    for start in range(0, len(items), size):
        yield items[start : start + size]
