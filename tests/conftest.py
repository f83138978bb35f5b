"""Fixtures that several suites share, and the order in which suites run."""

import os
from pathlib import Path

import pytest

pytest_plugins = ["tests.servers"]

os.environ.pop("COLUMNS", None)  # workers of xdist have it, and no terminal

_LONG = ("setup", "faults", "slices", "ui", "examples", "execution", "orchestration")
"""Suites that go first, so that no worker begins one of them when the others are done."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Long suites first; within a suite nothing changes."""
    items.sort(key=lambda item: _turn(item.path))


def _turn(path: Path) -> int:
    suite = path.parent.name
    return _LONG.index(suite) if suite in _LONG else len(_LONG)
