"""Temporary Java properties files that pass settings with secrets to a JVM.

On a command line, every user of the machine could read them. A file is locked as long as a process
needs it; one without a lock was left by a process that was killed, and is removed.
"""

import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory

from logdriven_dagster.private_files import is_ours, private_file

_FOLDERS = "logdriven-spark-"
_FILE = "spark.properties"


@contextmanager
def settings_file(settings: Mapping[str, str]) -> Iterator[Path]:
    """Write a file for `--properties-file` that exists while the JVM starts.

    Files that killed processes left behind are removed first.
    """
    for folder in find_leftover_settings():
        remove_settings(folder)
    with TemporaryDirectory(prefix=_FOLDERS) as made, _lock_folder(Path(made)):
        path = Path(made, _FILE)
        with private_file(path) as file:
            file.writelines(f"{_name(k)}={_value(v)}\n" for k, v in settings.items())
        yield path


def find_leftover_settings() -> list[Path]:
    """Find the folders with settings that no process needs any more.

    A folder without the file is left alone: it has no secrets, and its process may be about to lock
    it.
    """
    found = Path(tempfile.gettempdir()).glob(f"{_FOLDERS}*/{_FILE}")
    folders = [file.parent for file in found if is_ours(file.parent)]
    return [folder for folder in folders if not _is_locked(folder)]


def remove_settings(folder: Path) -> None:
    """Remove a folder of `find_leftover_settings`; another process may have removed it already."""
    shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def _lock_folder(folder: Path) -> Iterator[None]:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _is_locked(folder: Path) -> bool:
    with suppress(FileNotFoundError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        finally:
            os.close(descriptor)
    return False


def _name(name: str) -> str:
    """Return a key, escaped for a Java properties file."""
    for character in "\\=: #!":
        name = name.replace(character, f"\\{character}")
    return name


def _value(value: str) -> str:
    """Return a value, escaped for a Java properties file."""
    escaped = value.replace("\\", "\\\\").replace("\n", "\\n").replace("\r", "\\r")
    return f"\\{escaped}" if escaped.startswith((" ", "\t")) else escaped
