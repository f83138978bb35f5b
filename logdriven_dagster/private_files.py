"""Files and folders that other users of the machine cannot write, or cannot even read."""

import os
import stat
from contextlib import suppress
from pathlib import Path
from typing import TextIO

_OTHERS = stat.S_IWGRP | stat.S_IWOTH
_OURS_ALONE = 0o700


def guard_umask() -> None:
    """Let this process and those that it starts make nothing that every user can write.

    A umask that leaves the group its rights, as in a project of several people, stays.
    """
    before = os.umask(0o077)
    os.umask(before if before & stat.S_IWOTH else before | _OTHERS)


def is_ours(path: Path) -> bool:
    """Whether a file or folder is there, belongs to this user, and nobody else can write it."""
    try:
        found = path.lstat()
    except OSError:
        return False
    return found.st_uid == os.getuid() and not found.st_mode & _OTHERS


def private_folder(parent: Path, name: str) -> Path:
    """A folder below `parent` that only this user can write, made at the first call.

    Where another user has taken the name, it is one with our number behind it. OSError where there
    is no place for either.
    """
    for folder in (parent / name, parent / f"{name}-{os.getuid()}"):
        with suppress(FileExistsError):
            folder.mkdir(mode=_OURS_ALONE, parents=True)
        found = folder.lstat()
        if stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid():
            if stat.S_IMODE(found.st_mode) != _OURS_ALONE:  # it may be of a file system that is
                folder.chmod(_OURS_ALONE)  # only read
            return folder
    raise PermissionError(f"{folder} belongs to another user")


def private_file(path: Path) -> TextIO:
    """A new, empty file that only its owner can read; one of the same name is gone."""
    path.unlink(missing_ok=True)
    made = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    return os.fdopen(made, "w", encoding="utf-8")
