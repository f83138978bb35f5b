"""PyIceberg file access to object stores with few requests.

Metadata files, manifest lists and manifests have unique names and never change. Each one therefore
takes one request, and none if this process has written or read it before.
"""

from io import BytesIO
from threading import Lock
from typing import Any
from urllib.parse import urlsplit

from cachetools import LRUCache
from pyiceberg.io import OutputStream
from pyiceberg.io.fsspec import FsspecFileIO, FsspecInputFile, FsspecOutputFile

_UNCHANGING = (".metadata.json", ".avro")
_MOST_BYTES = 64 * 1024 * 1024

_contents: "LRUCache[str, bytes]" = LRUCache(_MOST_BYTES, getsizeof=len)
"""Location → content."""
_lock = Lock()


def _keep(location: str, content: bytes) -> None:
    if len(content) < _MOST_BYTES:
        with _lock:
            _contents[location] = content


class StoreFileIO(FsspecFileIO):
    """PyIceberg's file access through fsspec, with a cache of immutable files."""

    def new_input(self, location: str) -> FsspecInputFile:
        """Return a file for reading."""
        if not location.endswith(_UNCHANGING):
            return super().new_input(location)
        return _Unchanging(location, self._system(location))

    def new_output(self, location: str) -> FsspecOutputFile:
        """Return a file for writing."""
        if not location.endswith(_UNCHANGING):
            return super().new_output(location)
        return _New(location, self._system(location))

    def _system(self, location: str) -> Any:
        place = urlsplit(location)
        return self.get_fs(place.scheme or "file", place.hostname)


class _Unchanging(FsspecInputFile):
    def __init__(self, location: str, system: Any) -> None:
        super().__init__(location, system)
        self._system = system

    def __len__(self) -> int:
        return len(self._content())

    def open(self, seekable: bool = True) -> Any:  # noqa: ARG002, FBT001, FBT002 - as PyIceberg has it
        """Open the cached content, or the file."""
        return BytesIO(self._content())

    def _content(self) -> bytes:
        with _lock:
            content = _contents.get(self.location)
        if content is None:
            content = bytes(self._system.cat_file(self.location))
            _keep(self.location, content)
        return content


class _New(FsspecOutputFile):
    """A new file with a unique name, whose existence need not be checked."""

    def __init__(self, location: str, system: Any) -> None:
        super().__init__(location, system)
        self._system = system
        self._length: int | None = None

    def __len__(self) -> int:
        return super().__len__() if self._length is None else self._length

    def create(self, overwrite: bool = False) -> OutputStream:  # noqa: ARG002, FBT001, FBT002 - as PyIceberg has it
        """Open a stream that writes the file when it is closed."""
        return _Stream(self)

    def to_input_file(self) -> FsspecInputFile:
        return _Unchanging(self.location, self._system)

    def put(self, content: bytes) -> None:
        """Write the whole file, in one request unless it is very large."""
        self._system.pipe_file(self.location, content)
        self._length = len(content)
        _keep(self.location, content)


class _Stream(BytesIO):
    """The content of a file that is being written; nothing is written after an error."""

    def __init__(self, file: _New) -> None:
        super().__init__()
        self._file = file

    def __exit__(self, *error: object) -> None:
        if error[0] is not None:
            super().close()
        self.close()

    def close(self) -> None:
        """Write the file."""
        if not self.closed:
            content = self.getvalue()
            super().close()
            self._file.put(content)
