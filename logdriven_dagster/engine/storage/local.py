"""Local folders, and those of mounted file systems, through system calls.

Every window pays for these calls: listing 5,000 pointers takes 3 ms, 30 ms with a `stat` per file,
80 ms with fsspec (`tests/engine/storage/test_local.py` guards this).
"""

import errno
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timezone
from pathlib import Path
from typing import BinaryIO
from uuid import uuid4

from logdriven_dagster.config.locations import get_local_folder
from logdriven_dagster.engine.storage.storage import DRAFT, Weight
from logdriven_dagster.errors import TerminalStepError

_MOST_OF_A_NAME = 10_000
_NO_LINKS = {errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK}


class LocalStorage:
    """Storage operations on local folders. They accept plain paths, too, as in run logs."""

    is_remote = False

    def new_folder(self, parent: str, name: str) -> str:
        """Create an empty folder of this name, with a number appended if the name is taken.

        A run log that was recreated numbers its jobs from 1 again, so published rows may already be
        there. Raises TerminalStepError if all numbers are taken.
        """
        self.make_folder(parent)
        for number in range(1, _MOST_OF_A_NAME):
            folder = f"{parent}/{name}" if number == 1 else f"{parent}/{name}.{number}"
            try:
                _path(folder).mkdir()
            except FileExistsError:
                continue
            return folder
        raise TerminalStepError(
            f"could not create a unique folder {name} in {_path(parent)}: every "
            "candidate name exists"
        )

    def make_folder(self, folder: str) -> None:
        """Create a folder and its parents, unless it exists."""
        _path(folder).mkdir(parents=True, exist_ok=True)

    def names(self, folder: str) -> list[str]:
        """Return the sorted names in a folder; empty if there is no such folder."""
        return sorted(self.versions(folder))

    def versions(self, folder: str) -> dict[str, int]:
        """Return the names in a folder with their inodes, which the listing includes.

        A file that replaces another one has a different inode, because both existed at the same
        time.
        """
        try:
            with os.scandir(_path(folder)) as found:
                return {entry.name: entry.inode() for entry in found}
        except (FileNotFoundError, NotADirectoryError):
            return {}

    def weight(self, location: str) -> Weight:
        """Return size and age of a file, or of a folder with its content.

        Raises FileNotFoundError if it does not exist.
        """
        path = _path(location)
        own = path.stat()
        if not path.is_dir():
            return Weight(own.st_size, _convert_mtime(own.st_mtime))
        below = list(_stats_below(path))
        newest = max([own.st_mtime, *(modified for _, modified in below)])
        return Weight(sum(size for size, _ in below), _convert_mtime(newest))

    def exists(self, location: str) -> bool:
        """Return whether there is a file or folder."""
        return _path(location).exists()

    def is_below(self, location: str, parent: str) -> bool:
        """Return whether a location is inside a folder, with links resolved."""
        path, folder = _path(location).resolve(), _path(parent).resolve()
        return path != folder and path.is_relative_to(folder)

    def open(self, location: str) -> BinaryIO:
        """Open a file for reading; raise FileNotFoundError if there is none."""
        return _path(location).open("rb")

    def read(self, location: str) -> bytes:
        """Return the content of a file; raise FileNotFoundError if there is none."""
        return _path(location).read_bytes()

    def rows(self, location: str, form: str) -> int:
        """Return the row count of a file whose format is one of FOOTERS.

        Raises OSError or ValueError if the file is incomplete.
        """
        if form == "orc":
            from pyarrow.orc import ORCFile

            return int(ORCFile(str(_path(location))).nrows)
        from pyarrow.parquet import read_metadata

        return int(read_metadata(_path(location)).num_rows)

    def put(self, location: str, content: bytes) -> None:
        """Write a file, in place of one of this name."""
        path = _path(location)
        with _write_draft(path, content) as draft:
            draft.replace(path)

    def put_if_absent(self, location: str, content: bytes) -> bool:
        """Write a file if none of this name exists, and return whether it was written.

        The bytes are on disk before a hard link publishes the file. Only one of several writers can
        create the link, and a writer that is killed or suspended before that blocks no other.
        """
        path = _path(location)
        with _write_draft(path, content) as draft:
            return _link(draft, path)

    def remove(self, location: str) -> None:
        """Remove a file, or a folder with its content; do nothing if it does not exist."""
        path = _path(location)
        if path.is_dir():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)


def _path(location: str) -> Path:
    return Path(get_local_folder(location))


@contextmanager
def _write_draft(path: Path, content: bytes) -> Iterator[Path]:
    """Write a draft of a file to disk, and remove it afterwards, unless it was renamed."""
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f"{path.name}.{uuid4().hex}{DRAFT}")
    try:
        with draft.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        yield draft
    finally:
        draft.unlink(missing_ok=True)


def _link(draft: Path, path: Path) -> bool:
    """Rename a finished draft to its final name; return False if that name exists."""
    try:
        path.hardlink_to(draft)
    except FileExistsError:
        return False
    except OSError as error:
        # Mounted object stores have no links; only there, two simultaneous writers may both
        # succeed.
        if error.errno not in _NO_LINKS:
            raise
        if path.exists():
            return False
        draft.replace(path)
    return True


def _stats_below(folder: Path) -> Iterator[tuple[int, float]]:
    """Yield size and modification time of all files below; folders have size 0."""
    with os.scandir(folder) as found:
        for entry in found:
            stat = entry.stat()
            is_folder = entry.is_dir()
            yield 0 if is_folder else stat.st_size, stat.st_mtime
            if is_folder and not entry.is_symlink():
                yield from _stats_below(Path(entry.path))


def _convert_mtime(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, timezone.utc)
