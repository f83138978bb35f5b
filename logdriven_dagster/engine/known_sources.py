"""Sources of files that are the same for many windows: looked at once, not for every window."""

import os
from collections import OrderedDict
from collections.abc import Hashable
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, TypeAlias

from logdriven_dagster.engine.modes import mode_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, DataFrameReader, SparkSession
    from pyspark.sql.types import StructType

_PATTERN = set("*?[]{}\\")
_MOST_FILES = 10_000
_MOST_SOURCES = 100
"""A path may be another one for every window, and each frame keeps the session that made it."""

Fingerprint: TypeAlias = frozenset[tuple[str, int, int]]
"""Path, size and time of the last change, in nanoseconds, of every file."""


class KnownSources:
    """What Spark found in local files, while each of them is the same and none is added."""

    def __init__(self) -> None:
        self._known: OrderedDict[Hashable, tuple[Fingerprint, DataFrame, StructType]]
        self._known = OrderedDict()
        self._adding = Lock()

    def load(
        self,
        key: Hashable,
        spark: "SparkSession",
        reader: "DataFrameReader",
        path: str,
        *,
        typed: bool,
    ) -> "DataFrame":
        """The files below a path; `key` tells readers with other settings apart.

        `typed` readers know the columns, and look into no file for them.
        """
        mode = mode_of(spark)
        if typed and not mode.lists_files:
            return reader.load(path)
        found = fingerprint(path)
        known = self._known.get((key, path))
        if known is not None and known[0] == found:
            again = mode.again(known[1], spark)
            return reader.schema(known[2]).load(path) if again is None else again
        frame = reader.load(path)
        if found is not None:
            schema = frame.schema
            with self._adding:  # windows side by side share the sources
                self._known[key, path] = found, frame, schema
                if len(self._known) > _MOST_SOURCES:
                    self._known.popitem(last=False)
        return frame


def fingerprint(path: str) -> Fingerprint | None:
    """Of a local file, or of all below a folder; None where that is not known, or takes long."""
    text = path.removeprefix("file://") if path.startswith("file:///") else path
    if ":" in text or _PATTERN & set(text):
        return None
    root = Path(text)
    try:
        if root.is_file():
            return frozenset([_told(root)])
        found: set[tuple[str, int, int]] = set()
        for folder, _, names in os.walk(root):
            if len(found) + len(names) > _MOST_FILES:
                return None
            found |= {_told(Path(folder, name)) for name in names}
    except OSError:
        return None
    return frozenset(found) or None


def _told(file: Path) -> tuple[str, int, int]:
    stat = file.stat()
    return str(file), stat.st_size, stat.st_mtime_ns
