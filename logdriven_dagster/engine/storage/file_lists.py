"""Lists of files that Spark reads without looking up each file.

Spark looks up each path that it is given before it runs a query: this takes seconds for 10,000
files, and one or two requests per file to an object store. It skips the lookup only for the log
that a streaming query leaves in its output folder: path, size and time of each file. Therefore, the
files of a table are written as such a log, into a folder that holds nothing else.
"""

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from threading import Lock
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from logdriven_dagster.config.project import Project
from logdriven_dagster.engine.storage.locations import Folder, spark_path
from logdriven_dagster.engine.storage.staging import staging_folder, staging_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_LOG = "_spark_metadata"
_VERSION = "v1"
_PASSED_OVER = "spark.sql.streaming.fileStreamSink.ignoreMetadata"
"""Spark's setting that disables such logs."""

_NO_LIST = "Spark did not use the list of files of this folder.parquet"
"""Name of an unreadable file that no list contains.

Without it, a folder whose log Spark ignores, because it temporarily could not read it, would have
no rows.
"""

OPTIONS = {
    # Folders named `column=value` are not partition columns: only the table's own metadata count.
    "recursiveFileLookup": "true",
    # The files are not looked up before they are read, and none may be skipped then.
    "ignoreMissingFiles": "false",
    "ignoreCorruptFiles": "false",
}
"""Options of every reader of a list."""


class FileLists:
    """The file lists of one session, in a folder that is created with the first list."""

    def __init__(self, new_folder: Callable[[], Folder]) -> None:
        self._new_folder = new_folder
        self._lock, self._made = Lock(), 0
        self._folder: Folder | None = None

    def write_list(self, sizes: Mapping[str, int]) -> str:
        """Write a list of files with their sizes in bytes; return the folder that Spark reads."""
        with self._lock:
            self._folder = self._folder or self._new_folder()
            folder, self._made = self._folder.get_subfolder(str(self._made)), self._made + 1
        lines = [_VERSION, *(_line(file, size) for file, size in sizes.items())]
        put, place = folder.storage.put, folder.location
        put(f"{place}/{_LOG}/0", "\n".join(lines).encode())
        put(f"{place}/{_NO_LIST}", b"not Parquet")
        return place

    def remove(self) -> None:
        """Remove all lists; frames that read through them become unusable."""
        if self._folder is not None:
            self._folder.remove()


def _line(file: str, size: int) -> str:
    """Describe a file as in the log of a streaming query."""
    described = {
        "path": spark_path(file),
        "size": size,
        "isDir": False,
        "modificationTime": 0,
        "blockReplication": 1,
        "blockSize": 1,
        "action": "add",
    }
    return json.dumps(described, ensure_ascii=False)


_OF_SESSIONS: "WeakKeyDictionary[SparkSession, FileLists]" = WeakKeyDictionary()


@contextmanager
def listing_files(
    spark: "SparkSession", project: Project, table: str, job_id: int
) -> Iterator[None]:
    """Enable file lists for a session while the block runs.

    The lists are written to the staging folder of `table`, in a folder of the job `job_id`, and
    removed at the end.
    """
    lists = FileLists(lambda: staging_folder(staging_of(project, table), job_id, "files"))
    _OF_SESSIONS[spark] = lists
    try:
        yield
    finally:
        del _OF_SESSIONS[spark]
        with suppress(Exception):  # `clean` removes leftovers
            lists.remove()


def lists_of(spark: "SparkSession") -> FileLists | None:
    """Return the file lists of a session; None if it has none, or its settings disable them."""
    lists = _OF_SESSIONS.get(spark)
    if lists is None or str(spark.conf.get(_PASSED_OVER, "false")).lower() == "true":
        return None
    return lists
