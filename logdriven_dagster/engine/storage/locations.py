"""Where a location leads: the file system that it is of, and the parts of its text."""

from collections.abc import Iterator
from contextlib import contextmanager

from logdriven_dagster.engine.storage.local import LocalStorage
from logdriven_dagster.engine.storage.storage import Storage
from logdriven_dagster.errors import TerminalStepError

STORAGES: dict[str, Storage] = {"file": LocalStorage()}
"""Scheme of locations → the file system behind it."""


def storage_of(location: str) -> Storage:
    """Return the file system of a location, or of a path; TerminalStepError: not supported."""
    scheme = location.partition("://")[0] if "://" in location else "file"
    if scheme not in STORAGES:
        raise TerminalStepError(f"{location}: {scheme}:// is not supported")
    return STORAGES[scheme]


def remove(location: str) -> None:
    """Remove a file, or a folder with all below; what is gone already is fine."""
    storage_of(location).remove(location)


@contextmanager
def folder_for_a_while(parent: str, name: str) -> Iterator[str]:
    """A new folder that is removed at the end."""
    folder = storage_of(parent).new_folder(parent, name)
    try:
        yield folder
    finally:
        remove(folder)


def data_files(folder: str) -> list[str]:
    """The files that Spark wrote into a folder; the names of others begin with `_` or `.`."""
    names = storage_of(folder).names(folder)
    return [f"{folder}/{name}" for name in names if name[0] not in "._"]


def name_of(location: str) -> str:
    """Return the last part of a location: the name of the file or folder."""
    return location.rpartition("/")[2]


def folder_of(location: str) -> str:
    """Return the folder of a location: all but its last part."""
    return location.rpartition("/")[0]
