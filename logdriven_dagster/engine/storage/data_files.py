"""Parquet and ORC files, local or in an object store, as PyArrow opens them."""

from typing import Any, NamedTuple, TypeAlias

from logdriven_dagster.errors import StepError, TerminalStepError, TransientStepError

_BLOCK = 64 * 1024
"""Size of a request: it contains the footer of almost every file."""


class DataFile(NamedTuple):
    """A version of a file."""

    path: str
    """The path of a local file, or the URL with which Spark reads a remote one."""
    size: int
    changed: int
    """Modification time in nanoseconds since 1970."""
    tag: int = 0
    """A hash of the entity tag of a remote file, whose time may be that of another version."""
    system: Any = None
    """fsspec's file system of the object store; None for a local file."""

    @property
    def version(self) -> tuple[str, int, int]:
        """The path, the size, and a number that differs between versions with the same size."""
        return self.path, self.size, self.changed if self.system is None else self.tag

    def open(self) -> Any:
        """Return what PyArrow reads: a path, or a stream.

        Opening and reading a remote file raise TransientStepError if the store does not answer, and
        TerminalStepError without permission: PyArrow's own errors mean that the content is damaged.
        """
        return self.path if self.system is None else _Stream(self)

    def refuse_replaced(self) -> None:
        """Raise TransientStepError if a remote file has another size than when it was listed."""
        if self.system is None:
            return
        self.system.invalidate_cache(self.path)
        if self.system.size(self.path) != self.size:
            raise TransientStepError(f"replaced while it was read: {self.path}")


DataFiles: TypeAlias = frozenset[DataFile]
"""The versions of all files of a source."""


class _Stream:
    """A remote file; other methods than `read` are those of fsspec's file."""

    def __init__(self, file: DataFile) -> None:
        self._path = file.path
        try:
            self._opened = file.system.open(file.path, "rb", block_size=_BLOCK, size=file.size)
        except Exception as error:
            raise self._describe(error) from error
        if file.path.startswith("s3"):  # s3fs would send a HEAD request before the first read
            self._opened.details = {"name": file.path, "size": file.size}

    def read(self, size: int = -1) -> bytes:
        try:
            return self._opened.read(size)  # type: ignore[no-any-return]
        except Exception as error:
            raise self._describe(error) from error

    def __getattr__(self, name: str) -> Any:
        return getattr(self._opened, name)

    def _describe(self, error: Exception) -> StepError:
        kind = TerminalStepError if isinstance(error, PermissionError) else TransientStepError
        return kind(f"{self._path}: could not be read ({error})")
