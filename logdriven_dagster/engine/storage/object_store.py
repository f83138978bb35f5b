"""Object stores, by fsspec: S3, Google Cloud Storage, Azure Data Lake Storage.

A store has no folders, only names that begin alike, and renames nothing: what is written is written
in its place. What makes a publication is a conditional PUT: `If-None-Match: *` or what the store
has for it. A store that passes over the condition is refused at the first one.
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
"""Bytes of a file's end that hold the footer of almost every file; others are asked for again."""


class ObjectStore:
    """The operations on one object store.

    `open_system` returns fsspec's file system with empty caches.
    """

    is_remote = True

    def __init__(self, open_system: Callable[[], Any]) -> None:
        self._open_system = open_system
        self._honours_conditions = False

    def new_folder(self, parent: str, name: str) -> str:
        """A name that nobody else has: there are no folders, and run logs may count anew."""
        return f"{parent}/{name}.{uuid4().hex[:8]}"

    def make_folder(self, folder: str) -> None:
        """Do nothing: folders come with what is in them."""

    def names(self, folder: str) -> list[str]:
        """The names of what is in a folder, in order; none where there is no folder."""
        return sorted(self._listed(folder))

    def versions(self, folder: str) -> dict[str, int]:
        """Each name in a folder with a number of the object's tag and time."""
        return {name: _version(info) for name, info in self._listed(folder).items()}

    def weight(self, location: str) -> Weight:
        """Size and age of a file, or of a folder with all below; FileNotFoundError: it is gone."""
        found = self._system.find(location, detail=True).values()
        if not found:
            raise FileNotFoundError(location)
        return Weight(sum(info["size"] for info in found), max(map(_modified, found)))

    def exists(self, location: str) -> bool:
        """Whether there is a file, or anything in a folder."""
        system = self._system
        return bool(system.exists(location))

    def is_below(self, location: str, parent: str) -> bool:
        """Whether a location is one below a folder."""
        return location.startswith(f"{parent}/")

    def open(self, location: str) -> BinaryIO:
        """Open a file for reading; FileNotFoundError if there is none."""
        return self._system.open(location, "rb")  # type: ignore[no-any-return]

    def read(self, location: str) -> bytes:
        """Return what is in a file that is not empty; FileNotFoundError if there is none.

        A range is one request; without one s3fs asks for the size first.
        """
        return self._system.cat_file(location, start=0)  # type: ignore[no-any-return]

    def rows(self, location: str, form: str) -> int:
        """The rows of a file of one of FOOTERS; OSError or ValueError for one that is not whole."""
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
        """Put a file under a name that nobody else knows of."""
        self._system.pipe_file(location, content)

    def put_if_absent(self, location: str, content: bytes) -> bool:
        """Put a file where there is none; False if there is another one.

        An answer that got lost is asked for again, so what is found may be our own.
        """
        self._refuse_careless_store(location)
        if self._put(location, content):
            return True
        return self.read(location) == content

    def remove(self, location: str) -> None:
        """Remove a file, or a folder with all below; what is gone already is fine."""
        system = self._system
        for path in system.find(location):
            with suppress(FileNotFoundError):
                system.rm_file(path)  # `rm` would take `[1]` in a name for a pattern

    @property
    def _system(self) -> Any:
        return self._open_system()

    def _listed(self, folder: str) -> dict[str, Mapping[str, Any]]:
        system = self._system
        try:
            found = system.ls(folder, detail=True)
        except FileNotFoundError:
            return {}
        named = {info["name"].rstrip("/"): info for info in found}
        markers = [name for name in named if folder.endswith(f"/{name}")]  # of the folder itself
        return {n.rpartition("/")[2]: info for n, info in named.items() if n not in markers}

    def _put(self, location: str, content: bytes) -> bool:
        """Put a file by a conditional request; False if there is one."""
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
        """TerminalStepError for a store that overwrites what is there; it is tried once."""
        if self._honours_conditions:
            return
        probe = f"{location}.{uuid4().hex}{DRAFT}"
        self._put(probe, b"1")
        self._honours_conditions = not self._put(probe, b"2")
        self.remove(probe)
        if not self._honours_conditions:
            raise TerminalStepError(
                f"{location}: this store knows no conditional writes (If-None-Match), so two runs "
                "could publish one window; use a store that does, or a target of type iceberg, "
                "whose catalog decides"
            )


def _is_refusal(error: OSError) -> bool:
    """Whether a store says that there is a file: HTTP 412, or 409 of two writers at a time."""
    cause: Any = error.__cause__ or error
    code = str(getattr(cause, "response", {}).get("Error", {}).get("Code", ""))
    return code in ("PreconditionFailed", "ConditionalRequestConflict")


def _version(info: Mapping[str, Any]) -> int:
    tag = next((info[name] for name in ("ETag", "etag", "md5Hash") if info.get(name)), "")
    return zlib.crc32(f"{tag}-{info['size']}".encode())


def _modified(info: Mapping[str, Any]) -> datetime:
    for name in ("LastModified", "last_modified", "updated", "mtime"):
        value = info.get(name)
        if isinstance(value, str):
            value = datetime.fromisoformat(value.replace("Z", "+00:00"))
        if isinstance(value, datetime):
            return value.astimezone(timezone.utc)
    return datetime.now(timezone.utc)
