"""Renaming the folder of a table, in one step of the file system."""

import os
from collections.abc import Iterable
from pathlib import Path

from logdriven_dagster.config.locations import as_path, get_local_folder
from logdriven_dagster.engine.storage.locations import Folder
from logdriven_dagster.errors import TerminalStepError


def find_move_obstacle(old: Folder, new: Folder) -> str | None:
    """Return the reason why a folder cannot be renamed, with the fix; None if it can."""
    is_taken = bool(new.names())  # looked at first: another process may move the folder now
    if not old.names():
        return None
    was, now = as_path(old.location), as_path(new.location)
    if is_taken:
        return f"{was} and {now} both hold files; remove or move those that are not needed"
    if old.storage.is_remote:
        fix = f"write `path: {was}` into the target, or copy the folder to {now} and remove it"
        return f"the object store of {was} cannot rename folders; {fix}"
    if new.storage.is_below(new.location, old.location):
        return f"{now} lies in {was}; write `path: {was}` into the target"
    return None


def move_folder(old: Folder, new: Folder) -> None:
    """Rename a local folder; do nothing if that was done before, or if there is none.

    Raises TerminalStepError if both exist, as after a write of a process that was not stopped.
    """
    if (problem := find_move_obstacle(old, new)) is not None:
        raise TerminalStepError(problem)
    if not old.names():
        return
    source, target = (Path(get_local_folder(each.location)) for each in (old, new))
    target.parent.mkdir(parents=True, exist_ok=True)
    try:
        source.rename(target)
    except FileNotFoundError:
        if not target.exists():  # otherwise another process was faster
            raise
    _sync({source.parent, target.parent})


def _sync(folders: Iterable[Path]) -> None:
    """Write the entries of folders to disk, so that a power failure does not undo a rename."""
    for folder in folders:
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
