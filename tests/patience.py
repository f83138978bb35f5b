"""How long tests wait. The machines that run them may be many times slower than ours."""

import time
from collections.abc import Iterator
from contextlib import contextmanager

PATIENCE = 300
"""Seconds until a test gives up on what should have happened. pytest's own limit is longer."""


@contextmanager
def within(seconds: float) -> Iterator[None]:
    """AssertionError if the block takes longer; for what would take far longer, or for ever."""
    began = time.monotonic()
    yield
    assert time.monotonic() - began < seconds
