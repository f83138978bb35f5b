"""Entry points of installed packages, by which they extend this one."""

from functools import cache
from importlib.metadata import EntryPoint, entry_points
from typing import Any


@cache
def _installed() -> Any:  # EntryPoints, from Python 3.12 on
    return entry_points()  # reads the metadata of every installed package


def entry_points_of(group: str) -> list[EntryPoint]:
    """Return the entry points of a group in the order of their names.

    An entry point that two distributions register, such as logdriven_dagster and its core package,
    is returned once.
    """
    found = sorted(_installed().select(group=group), key=lambda point: point.name)
    return list(dict.fromkeys(found))
