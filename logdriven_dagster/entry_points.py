"""Entry points of installed packages, by which they extend this one."""

from functools import cache
from importlib.metadata import EntryPoint, entry_points
from typing import Any


@cache
def _installed() -> Any:  # EntryPoints, from Python 3.12 on
    return entry_points()  # reads the metadata of every installed package


def entry_points_of(group: str) -> list[EntryPoint]:
    """Return the entry points of a group in the order of their names."""
    return sorted(_installed().select(group=group), key=lambda point: point.name)
