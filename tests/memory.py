"""Where data of tests lie that need not outlive them."""

import os
import shutil
from pathlib import Path

_MEMORY = Path("/dev/shm")
_ROOM_BYTES = 4 << 30
"""More than two workers and their servers take."""


def temporary_folder() -> Path:
    """Memory, where that has room, or `/tmp`: every commit to a database on a disk waits for it."""
    if not os.access(_MEMORY, os.W_OK) or os.statvfs(_MEMORY).f_flag & os.ST_NOEXEC:
        return Path("/tmp")
    return _MEMORY if shutil.disk_usage(_MEMORY).free > _ROOM_BYTES else Path("/tmp")
