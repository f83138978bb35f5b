"""Folders of this machine, and of file systems mounted on it, by the system's own calls.

A window pays for each of them: of 5,000 pointers the listing takes 3 ms, with a look at each file
30 ms, by fsspec 80 ms (`tests/engine/storage/test_local.py` holds it to the listing).
"""

import errno
import os
import shutil
from collections.abc import Iterator
from datetime import datetime, timezone
from pathlib import Path
from typing import BinaryIO
from uuid import uuid4

from logdriven_dagster.config.locations import local_folder
from logdriven_dagster.engine.storage.storage import DRAFT, Weight
from logdriven_dagster.errors import TerminalStepError

_MOST_OF_A_NAME = 10_000
_NO_LINKS = {errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK}


class LocalStorage:
    """The operations on local folders; plain paths work, too, as run logs may have them."""

    is_remote = False

    def new_folder(self, parent: str, name: str) -> str:
        """A new empty folder of this name, or with a number behind it where that one is taken.

        A run log that started anew counts its jobs from 1 again, so published rows may lie there.
        """
        self.make_folder(parent)
        for number in range(1, _MOST_OF_A_NAME):
            folder = f"{parent}/{name}" if number == 1 else f"{parent}/{name}.{number}"
            try:
                _path(folder).mkdir()
            except FileExistsError:
                continue
            return folder
        raise TerminalStepError(f"{_path(parent)} is full of folders named {name}")

    def make_folder(self, folder: str) -> None:
        """Make a folder and those around it, unless it is there."""
        _path(folder).mkdir(parents=True, exist_ok=True)

    def names(self, folder: str) -> list[str]:
        """The names of what is in a folder, in order; none where there is no folder."""
        return sorted(self.versions(folder))

    def versions(self, folder: str) -> dict[str, int]:
        """Each name in a folder with the file's inode, which the listing tells.

        A file that takes the place of another one was written while that one was there, so its
        number is another one.
        """
        try:
            with os.scandir(_path(folder)) as found:
                return {entry.name: entry.inode() for entry in found}
        except (FileNotFoundError, NotADirectoryError):
            return {}

    def weight(self, location: str) -> Weight:
        """Size and age of a file, or of a folder with all below; FileNotFoundError: it is gone."""
        path = _path(location)
        own = path.stat()
        if not path.is_dir():
            return Weight(own.st_size, _moment(own.st_mtime))
        below = list(_stats_below(path))
        size = sum(size for size, _ in below)
        return Weight(size, _moment(max([own.st_mtime, *(modified for _, modified in below)])))

    def exists(self, location: str) -> bool:
        """Whether there is a file or folder."""
        return _path(location).exists()

    def is_below(self, location: str, parent: str) -> bool:
        """Whether a location is truly one below a folder, links resolved."""
        path, folder = _path(location).resolve(), _path(parent).resolve()
        return path != folder and path.is_relative_to(folder)

    def open(self, location: str) -> BinaryIO:
        """Open a file for reading; FileNotFoundError if there is none."""
        return _path(location).open("rb")

    def read(self, location: str) -> bytes:
        """Return what is in a file; FileNotFoundError if there is none."""
        return _path(location).read_bytes()

    def rows(self, location: str, form: str) -> int:
        """The rows of a file of one of FOOTERS; OSError or ValueError for one that is not whole."""
        if form == "orc":
            from pyarrow.orc import ORCFile

            return int(ORCFile(str(_path(location))).nrows)
        from pyarrow.parquet import read_metadata

        return int(read_metadata(_path(location)).num_rows)

    def put(self, location: str, content: bytes) -> None:
        """Put a file under a name that nobody else knows of."""
        path = _path(location)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)

    def put_if_absent(self, location: str, content: bytes) -> bool:
        """Put a file where there is none; False if there is one. Its bytes are on disk first.

        The link is the moment at which it counts: of several writers one makes it, and whoever is
        killed or frozen before it is in nobody's way.
        """
        path = _path(location)
        path.parent.mkdir(parents=True, exist_ok=True)
        draft = path.with_name(f"{path.name}.{uuid4().hex}{DRAFT}")
        try:
            with draft.open("wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            return _linked(draft, path)
        finally:
            draft.unlink(missing_ok=True)

    def remove(self, location: str) -> None:
        """Remove a file, or a folder with all below; what is gone already is fine."""
        path = _path(location)
        if path.is_dir():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)


def _path(location: str) -> Path:
    return Path(local_folder(location))


def _linked(draft: Path, path: Path) -> bool:
    """Give a finished draft its name, unless a file has it."""
    try:
        path.hardlink_to(draft)
    except FileExistsError:
        return False
    except OSError as error:
        # Mounted object stores know no links; only there two writers at one moment may both win.
        if error.errno not in _NO_LINKS:
            raise
        if path.exists():
            return False
        draft.replace(path)
    return True


def _stats_below(folder: Path) -> Iterator[tuple[int, float]]:
    """Size and time of the last change of all below; a folder has no size of its own."""
    with os.scandir(folder) as found:
        for entry in found:
            stat = entry.stat()
            is_folder = entry.is_dir()
            yield 0 if is_folder else stat.st_size, stat.st_mtime
            if is_folder and not entry.is_symlink():
                yield from _stats_below(Path(entry.path))


def _moment(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, timezone.utc)
