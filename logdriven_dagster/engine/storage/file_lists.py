"""Lists of files that Spark takes as they are, instead of looking for each file.

Spark asks the file system for each path that it is given, before anything runs: seconds for 10,000
files, and a request or two each to a store. What it believes without a look is the log that a
streaming query leaves in the folder that it writes: path, size and time of each file. So the files
of a table are put down as such a log, in a folder that holds nothing else.
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
"""Spark's setting that such logs mean nothing."""

_NO_LIST = "Spark did not use the list of files beside this one.parquet"
"""A file that no list names and nobody can read: without it, a folder whose log Spark passes over,
since it could not reach it for a moment, would be one without rows."""

OPTIONS = {
    # Folders named `column=value` are no columns: what a table says of its files is all there is.
    "recursiveFileLookup": "true",
    # Nobody looks for the files before they are read, and none may be left out then.
    "ignoreMissingFiles": "false",
    "ignoreCorruptFiles": "false",
}
"""What every reader of a list is told."""


class FileLists:
    """The lists of one session, in one folder that is made with the first of them."""

    def __init__(self, new_folder: Callable[[], Folder]) -> None:
        self._new_folder = new_folder
        self._lock, self._made = Lock(), 0
        self._folder: Folder | None = None

    def listed(self, sizes: Mapping[str, int]) -> str:
        """Put down files with their bytes; the folder that Spark reads in their place."""
        with self._lock:
            self._folder = self._folder or self._new_folder()
            folder, self._made = self._folder.within(str(self._made)), self._made + 1
        lines = [_VERSION, *(_line(file, size) for file, size in sizes.items())]
        put, place = folder.storage.put, folder.location
        put(f"{place}/{_LOG}/0", "\n".join(lines).encode())
        put(f"{place}/{_NO_LIST}", b"not Parquet")
        return place

    def remove(self) -> None:
        """Remove all lists; frames that read by them are of no use any more."""
        if self._folder is not None:
            self._folder.remove()


def _line(file: str, size: int) -> str:
    """Describe a file as the log of a streaming query does."""
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
    """Let a session read by lists, which lie where the job stages rows of the table."""
    lists = FileLists(lambda: staging_folder(staging_of(project, table), job_id, "files"))
    _OF_SESSIONS[spark] = lists
    try:
        yield
    finally:
        del _OF_SESSIONS[spark]
        with suppress(Exception):  # `clean` finds what stays
            lists.remove()


def lists_of(spark: "SparkSession") -> FileLists | None:
    """Return the lists of a session; None for one that reads without, as its settings may say."""
    lists = _OF_SESSIONS.get(spark)
    if lists is None or str(spark.conf.get(_PASSED_OVER, "false")).lower() == "true":
        return None
    return lists
