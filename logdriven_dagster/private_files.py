"""Files and folders that other users of the machine cannot write to, or cannot even read."""

import os
import stat
from contextlib import suppress
from pathlib import Path
from typing import TextIO

_OTHERS = stat.S_IWGRP | stat.S_IWOTH
_OURS_ALONE = 0o700


def guard_umask() -> None:
    """Set a umask so that this process and its children create no world-writable files.

    A umask that grants rights to the group, as in shared projects, is kept.
    """
    before = os.umask(0o077)
    os.umask(before if before & stat.S_IWOTH else before | _OTHERS)


def is_ours(path: Path) -> bool:
    """Return whether a path exists, belongs to this user, and no other user can write to it."""
    try:
        found = path.lstat()
    except OSError:
        return False
    return found.st_uid == os.getuid() and not found.st_mode & _OTHERS


def private_folder(parent: Path, name: str) -> Path:
    """Return a folder below `parent` that only this user can write to; create it if needed.

    If another user has taken the name, this user's id is appended. Raises OSError if neither name
    is available.
    """
    for folder in (parent / name, parent / f"{name}-{os.getuid()}"):
        with suppress(FileExistsError):
            folder.mkdir(mode=_OURS_ALONE, parents=True)
        found = folder.lstat()
        if stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid():
            if stat.S_IMODE(found.st_mode) != _OURS_ALONE:  # may be a read-only
                folder.chmod(_OURS_ALONE)  # file system
            return folder
    raise PermissionError(f"{folder} belongs to another user")


def private_file(path: Path) -> TextIO:
    """Create an empty file that only its owner can read, in place of one of the same name."""
    path.unlink(missing_ok=True)
    made = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    return os.fdopen(made, "w", encoding="utf-8")
