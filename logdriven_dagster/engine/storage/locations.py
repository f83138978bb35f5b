"""Locations: the file system of a location, and the parts of its text."""

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import lru_cache, partial
from typing import Any, NamedTuple
from urllib.parse import quote, urlsplit

from logdriven_dagster.config.locations import OBJECT_STORES, get_scheme, resolve_location
from logdriven_dagster.engine.storage.local import LocalStorage
from logdriven_dagster.engine.storage.object_store import ObjectStore
from logdriven_dagster.engine.storage.storage import Storage
from logdriven_dagster.errors import TerminalStepError, UsageError

_LOCAL = LocalStorage()
PATIENT = {"s3.connect-timeout": "10", "s3.request-timeout": "60"}
"""Default timeouts in seconds: a store that does not answer must not block a run."""

_PACKAGES = {"s3": "s3fs", "gs": "gcsfs", "abfs": "adlfs"}
"""Store → the package that accesses it, which the extra of the same name installs."""

# Java's URIs keep letters of other alphabets unescaped, but escape all kinds of spaces.
_ESCAPED = re.compile(
    r"[^/\-_.!~*'():@&=+$,;0-9A-Za-z\u00a1-\U0010ffff]"
    r"|[\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]"
)


def storage_of(location: str, properties: Mapping[str, str]) -> Storage:
    """Return the file system of a location or path, configured by PyIceberg's `properties`.

    Raises TerminalStepError if the scheme is not supported.
    """
    scheme = get_scheme(location)
    if scheme == "file":
        return _LOCAL
    if scheme not in OBJECT_STORES:
        raise TerminalStepError(f"{location}: {scheme}:// is not supported")
    place = urlsplit(location)
    return _store(f"{scheme}://{place.netloc}", tuple(sorted(properties.items())))


@lru_cache(maxsize=100)
def _store(root: str, properties: tuple[tuple[str, str], ...]) -> ObjectStore:
    return ObjectStore(partial(file_system, root, dict(properties)))


def file_system(location: str, properties: Mapping[str, str]) -> Any:
    """Return fsspec's file system of an object store as PyIceberg opens it, with an empty cache.

    Raises UsageError with the name of the missing package.
    """
    from pyiceberg.io.fsspec import FsspecFileIO

    place = urlsplit(location)
    store = OBJECT_STORES[place.scheme]
    try:
        io = FsspecFileIO(PATIENT | dict(properties))
        found = io.get_fs(place.scheme, place.hostname if store == "abfs" else None)
    except ImportError as error:
        raise UsageError(
            f"{place.scheme}:// needs the package {_PACKAGES[store]}: pip install "
            f"'logdriven_dagster[{store}]' ({error})"
        ) from None
    found.invalidate_cache()
    return found


class Folder(NamedTuple):
    """A folder, together with its file system."""

    storage: Storage
    location: str

    def get_subfolder(self, name: str) -> "Folder":
        """Return the subfolder of this name, whether it exists or not."""
        return Folder(self.storage, f"{self.location}/{name}")

    def new(self, name: str) -> "Folder":
        """Create an empty subfolder whose name starts with `name`."""
        return Folder(self.storage, self.storage.new_folder(self.location, name))

    def names(self) -> list[str]:
        """Return the sorted names in it."""
        return self.storage.names(self.location)

    def remove(self) -> None:
        """Remove it with its content."""
        self.storage.remove(self.location)


def folder_at(location: str, properties: Mapping[str, str]) -> Folder:
    """Return the folder at a location; see `storage_of` for `properties` and errors."""
    return Folder(storage_of(location, properties), location)


@contextmanager
def temporary_subfolder(parent: Folder, name: str) -> Iterator[Folder]:
    """Create a folder that is removed at the end of the block."""
    folder = parent.new(name)
    try:
        yield folder
    finally:
        folder.remove()


def name_of(location: str) -> str:
    """Return the last part of a location: the name of the file or folder."""
    return location.rpartition("/")[2]


def folder_of(location: str) -> str:
    """Return the folder of a location: all but its last part."""
    return location.rpartition("/")[0]


def literal_path(location: str) -> str:
    """Escape a path for Spark, which would read `[1]` as a pattern.

    Spark's option `__globPaths__` does not help: it reads all files of a list again for each
    such name.
    """
    return re.sub(r"([*?\[\]{}\\])", r"\\\1", location)


def spark_path(path: str) -> str:
    """Format a path like `_metadata.file_path`: escaped as a URI, with `file:/` for local ones."""
    scheme, _, rest = resolve_location(path).partition("://")
    escaped = _ESCAPED.sub(lambda sign: quote(sign[0], safe=""), rest)
    return f"file:{escaped}" if scheme == "file" else f"{scheme}://{escaped}"
