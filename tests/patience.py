"""How long tests wait. The machines that run them may be many times slower than ours."""

import time
from collections.abc import Iterator
from contextlib import contextmanager

PATIENCE = 300
"""Seconds until a test gives up on what should have happened. pytest's own limit is longer."""

SOON = 60
"""Seconds: what a test calls soon. Without what it tests, it would take far longer or for ever."""


@contextmanager
def soon() -> Iterator[None]:
    """AssertionError if the block takes longer than `SOON`."""
    began = time.monotonic()
    yield
    assert time.monotonic() - began < SOON
