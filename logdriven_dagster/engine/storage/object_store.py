"""Object stores, accessed through fsspec: S3, Google Cloud Storage, Azure Data Lake Storage.

A store has no folders, only names with a common prefix, and cannot rename: files are written under
their final names. A conditional PUT publishes them: `If-None-Match: *` or the store's equivalent. A
store that ignores the condition is refused at the first one.
"""

import io
import zlib
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import datetime, timezone
from typing import Any, BinaryIO
from uuid import uuid4

from logdriven_dagster.engine.storage.storage import DRAFT, Weight
from logdriven_dagster.errors import TerminalStepError

_TAIL = 64 * 1024
"""Size of the tail that contains the footer of almost every file; others take a second request."""


class ObjectStore:
    """Storage operations on one object store.

    `open_system` returns fsspec's file system with empty caches.
    """

    is_remote = True

    def __init__(self, open_system: Callable[[], Any]) -> None:
        self._open_system = open_system
        self._honours_conditions = False

    def new_folder(self, parent: str, name: str) -> str:
        """Return a unique name: there are no folders, and run logs may number jobs from 1 again."""
        return f"{parent}/{name}.{uuid4().hex[:8]}"

    def make_folder(self, folder: str) -> None:
        """Do nothing: folders exist as soon as they have content."""

    def names(self, folder: str) -> list[str]:
        """Return the sorted names in a folder; empty if there is no such folder."""
        return sorted(self._list_folder(folder))

    def versions(self, folder: str) -> dict[str, int]:
        """Return the names in a folder with a checksum of each object's tag and size."""
        return {name: _version(info) for name, info in self._list_folder(folder).items()}

    def weight(self, location: str) -> Weight:
        """Return size and age of a file, or of a folder with its content.

        Raises FileNotFoundError if it does not exist.
        """
        found = self._system.find(location, detail=True).values()
        if not found:
            raise FileNotFoundError(location)
        return Weight(sum(info["size"] for info in found), max(map(_get_modification_time, found)))

    def exists(self, location: str) -> bool:
        """Return whether there is a file, or a folder with content."""
        system = self._system
        return bool(system.exists(location))

    def is_below(self, location: str, parent: str) -> bool:
        """Return whether a location is inside a folder."""
        return location.startswith(f"{parent}/")

    def open(self, location: str) -> BinaryIO:
        """Open a file for reading; raise FileNotFoundError if there is none."""
        return self._system.open(location, "rb")  # type: ignore[no-any-return]

    def read(self, location: str) -> bytes:
        """Return the content of a file that is not empty; raise FileNotFoundError if there is none.

        A range needs one request; without one, s3fs requests the size first.
        """
        return self._system.cat_file(location, start=0)  # type: ignore[no-any-return]

    def rows(self, location: str, form: str) -> int:
        """Return the row count of a file whose format is one of FOOTERS.

        Raises OSError or ValueError if the file is incomplete.
        """
        if form == "orc":
            from pyarrow.orc import ORCFile

            with self.open(location) as stream:
                return int(ORCFile(stream).nrows)
        from pyarrow.parquet import read_metadata

        tail = self._system.cat_file(location, start=-_TAIL)
        if (footer := int.from_bytes(tail[-8:-4], "little") + 8) > len(tail):
            tail = self._system.cat_file(location, start=-footer)
        return int(read_metadata(io.BytesIO(tail)).num_rows)

    def put(self, location: str, content: bytes) -> None:
        """Write a file, in place of one of this name."""
        self._system.pipe_file(location, content)

    def put_if_absent(self, location: str, content: bytes) -> bool:
        """Write a file if none of this name exists, and return whether it was written.

        A lost response is requested again, so the existing file may be our own: its content is
        compared.
        """
        self._refuse_careless_store(location)
        if self._put(location, content):
            return True
        return self.read(location) == content

    def remove(self, location: str) -> None:
        """Remove a file, or a folder with its content; do nothing if it does not exist."""
        system = self._system
        for path in system.find(location):
            with suppress(FileNotFoundError):
                system.rm_file(path)  # `rm` would take `[1]` in a name for a pattern

    @property
    def _system(self) -> Any:
        return self._open_system()

    def _list_folder(self, folder: str) -> dict[str, Mapping[str, Any]]:
        system = self._system
        try:
            found = system.ls(folder, detail=True)
        except FileNotFoundError:
            return {}
        named = {info["name"].rstrip("/"): info for info in found}
        markers = [name for name in named if folder.endswith(f"/{name}")]  # the folder itself
        return {n.rpartition("/")[2]: info for n, info in named.items() if n not in markers}

    def _put(self, location: str, content: bytes) -> bool:
        """Write a file with a conditional request; return False if it exists."""
        try:
            self._system.pipe_file(location, content, mode="create")
        except FileExistsError:
            return False
        except OSError as error:
            if not _is_refusal(error):
                raise
            return False
        return True

    def _refuse_careless_store(self, location: str) -> None:
        """Raise TerminalStepError if the store overwrites existing files; it is tested once."""
        if self._honours_conditions:
            return
        probe = f"{location}.{uuid4().hex}{DRAFT}"
        self._put(probe, b"1")
        self._honours_conditions = not self._put(probe, b"2")
        self.remove(probe)
        if not self._honours_conditions:
            raise TerminalStepError(
                f"{location}: this store does not support conditional writes "
                "(If-None-Match), so two runs could publish one window; use a store that "
                "does, or a target of type iceberg, whose catalog prevents this"
            )


def _is_refusal(error: OSError) -> bool:
    """Return whether the store reports an existing file: HTTP 412, or 409 for parallel writers."""
    cause: Any = error.__cause__ or error
    code = str(getattr(cause, "response", {}).get("Error", {}).get("Code", ""))
    return code in ("PreconditionFailed", "ConditionalRequestConflict")


def _version(info: Mapping[str, Any]) -> int:
    tag = next((info[name] for name in ("ETag", "etag", "md5Hash") if info.get(name)), "")
    return zlib.crc32(f"{tag}-{info['size']}".encode())


def _get_modification_time(info: Mapping[str, Any]) -> datetime:
    for name in ("LastModified", "last_modified", "updated", "mtime"):
        value = info.get(name)
        if isinstance(value, str):
            value = datetime.fromisoformat(value.replace("Z", "+00:00"))
        if isinstance(value, datetime):
            return value.astimezone(timezone.utc)
    return datetime.now(timezone.utc)
