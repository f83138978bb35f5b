"""What the engine asks of a file system, whichever it is.

A location is a URL as text, whose parts are joined by `/`. What is put is there as a whole or not
at all, and nothing that is there is ever changed: publications need no more than that, and object
stores offer no more.
"""

from datetime import datetime
from typing import BinaryIO, NamedTuple, Protocol

DRAFT = ".draft"
"""The end of the names of files that a killed process has not finished; nobody reads them."""

FOOTERS = frozenset({"parquet", "orc"})
"""Formats whose files say how many rows they hold."""


class Weight(NamedTuple):
    """How large a file is, or a folder with all that is below it, and when it changed last."""

    bytes: int
    modified: datetime


class Storage(Protocol):
    """The operations that the engine needs of a file system."""

    def __hash__(self) -> int: ...

    @property
    def is_remote(self) -> bool:
        """Whether each call is a request over the network."""
        ...

    def new_folder(self, parent: str, name: str) -> str:
        """A new empty folder whose name nobody else has, and begins with this one."""
        ...

    def make_folder(self, folder: str) -> None:
        """Make a folder and those around it, unless it is there."""
        ...

    def names(self, folder: str) -> list[str]:
        """The names of what is in a folder, in order; none where there is no folder."""
        ...

    def versions(self, folder: str) -> dict[str, int]:
        """Each name in a folder with a number that is another one once the file is another one."""
        ...

    def weight(self, location: str) -> Weight:
        """Size and age of a file, or of a folder with all below; FileNotFoundError: it is gone."""
        ...

    def exists(self, location: str) -> bool:
        """Whether there is a file or folder."""
        ...

    def is_below(self, location: str, parent: str) -> bool:
        """Whether a location is truly one below a folder, and not that folder itself."""
        ...

    def open(self, location: str) -> BinaryIO:
        """Open a large file for reading; FileNotFoundError if there is none."""
        ...

    def read(self, location: str) -> bytes:
        """Return what is in a small file; FileNotFoundError if there is none."""
        ...

    def rows(self, location: str, form: str) -> int:
        """The rows of a file of one of FOOTERS; OSError or ValueError for one that is not whole."""
        ...

    def put(self, location: str, content: bytes) -> None:
        """Put a file under a name that nobody else knows of."""
        ...

    def put_if_absent(self, location: str, content: bytes) -> bool:
        """Put a file, as a whole or not at all, where there is none; False if there is one."""
        ...

    def remove(self, location: str) -> None:
        """Remove a file, or a folder with all below; what is gone already is fine."""
        ...
