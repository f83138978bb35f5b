"""Where a location leads: the file system that it is of, and the parts of its text."""

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import lru_cache, partial
from typing import Any, NamedTuple
from urllib.parse import quote, urlsplit

from logdriven_dagster.config.locations import OBJECT_STORES, location_of, scheme_of
from logdriven_dagster.engine.storage.local import LocalStorage
from logdriven_dagster.engine.storage.object_store import ObjectStore
from logdriven_dagster.engine.storage.storage import Storage
from logdriven_dagster.errors import TerminalStepError, UsageError

_LOCAL = LocalStorage()
PATIENT = {"s3.connect-timeout": "10", "s3.request-timeout": "60"}
"""Seconds, where the project does not say: a store that does not answer must not hang a run."""

_PACKAGES = {"s3": "s3fs", "gs": "gcsfs", "abfs": "adlfs"}
"""Store → the package that reaches it, which the extra of the same name installs."""

# Java's URIs keep letters of other alphabets as they are, but not spaces of any.
_ESCAPED = re.compile(
    r"[^/\-_.!~*'():@&=+$,;0-9A-Za-z\u00a1-\U0010ffff]"
    r"|[\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]"
)


def storage_of(location: str, properties: Mapping[str, str]) -> Storage:
    """Return the file system of a location, or of a path, reached by PyIceberg's `properties`.

    TerminalStepError: not supported.
    """
    scheme = scheme_of(location)
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
    """Make fsspec's file system of an object store as PyIceberg does, with no listing cached.

    UsageError names the package that is missing.
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
    """A folder, with the file system that it is of."""

    storage: Storage
    location: str

    def within(self, name: str) -> "Folder":
        """Return the folder of this name in it, whether it is there or not."""
        return Folder(self.storage, f"{self.location}/{name}")

    def new(self, name: str) -> "Folder":
        """Make an empty folder in it, whose name begins with this one."""
        return Folder(self.storage, self.storage.new_folder(self.location, name))

    def names(self) -> list[str]:
        """Return the names of what is in it, in order."""
        return self.storage.names(self.location)

    def remove(self) -> None:
        """Remove it with all below."""
        self.storage.remove(self.location)


def folder_at(location: str, properties: Mapping[str, str]) -> Folder:
    """Return the folder at a location, reached as `storage_of` says."""
    return Folder(storage_of(location, properties), location)


@contextmanager
def folder_for_a_while(parent: Folder, name: str) -> Iterator[Folder]:
    """A new folder that is removed at the end."""
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
    """Return a path that Spark does not take for a pattern, as `[1]` would be.

    Its option `__globPaths__` reads all files of a list once more for each name like that.
    """
    return re.sub(r"([*?\[\]{}\\])", r"\\\1", location)


def spark_path(path: str) -> str:
    """Spell a path as `_metadata.file_path` does: escaped as a URI, and `file:/` for local ones."""
    scheme, _, rest = location_of(path).partition("://")
    escaped = _ESCAPED.sub(lambda sign: quote(sign[0], safe=""), rest)
    return f"file:{escaped}" if scheme == "file" else f"{scheme}://{escaped}"
