"""Interface to the file systems that the engine uses.

A location is a URL as text, whose parts are joined by `/`. A write is complete or has no effect,
and existing files are never changed: publications need no more than that, and object stores offer
no more.
"""

from datetime import datetime
from typing import BinaryIO, NamedTuple, Protocol

DRAFT = ".draft"
"""Suffix of files that a killed process has not finished; they are never read."""

FOOTERS = frozenset({"parquet", "orc"})
"""Formats whose files contain their row count."""


class Weight(NamedTuple):
    """Size and last modification time of a file, or of a folder with its content."""

    bytes: int
    modified: datetime


class Storage(Protocol):
    """Operations of a file system that the engine needs."""

    def __hash__(self) -> int: ...

    @property
    def is_remote(self) -> bool:
        """True if each call is a request over the network."""
        ...

    def new_folder(self, parent: str, name: str) -> str:
        """Return a new empty folder with a unique name that starts with `name`."""
        ...

    def make_folder(self, folder: str) -> None:
        """Create a folder and its parents, unless it exists."""
        ...

    def names(self, folder: str) -> list[str]:
        """Return the sorted names in a folder; empty if there is no such folder."""
        ...

    def versions(self, folder: str) -> dict[str, int]:
        """Return the names in a folder, each with a number that changes if the file is replaced."""
        ...

    def weight(self, location: str) -> Weight:
        """Return size and age of a file, or of a folder with its content.

        Raises FileNotFoundError if it does not exist.
        """
        ...

    def exists(self, location: str) -> bool:
        """Return whether there is a file or folder."""
        ...

    def is_below(self, location: str, parent: str) -> bool:
        """Return whether a location is inside a folder, and not the folder itself."""
        ...

    def open(self, location: str) -> BinaryIO:
        """Open a large file for reading; raise FileNotFoundError if there is none."""
        ...

    def read(self, location: str) -> bytes:
        """Return the content of a small file; raise FileNotFoundError if there is none."""
        ...

    def rows(self, location: str, form: str) -> int:
        """Return the row count of a file whose format is one of FOOTERS.

        Raises OSError or ValueError if the file is incomplete.
        """
        ...

    def put(self, location: str, content: bytes) -> None:
        """Write a file, in place of one of this name."""
        ...

    def put_if_absent(self, location: str, content: bytes) -> bool:
        """Write a complete file if none of this name exists, and return whether it was written."""
        ...

    def remove(self, location: str) -> None:
        """Remove a file, or a folder with its content; do nothing if it does not exist."""
        ...
