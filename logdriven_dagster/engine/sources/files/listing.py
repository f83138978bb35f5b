"""The files that a source's path or pattern matches in Spark."""

import re
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote

from logdriven_dagster.config.locations import as_path, is_remote, resolve_location
from logdriven_dagster.engine.sources.known_sources import (
    MOST_FILES,
    PATTERN,
    Fingerprint,
    Key,
    fingerprint,
)
from logdriven_dagster.engine.spark.modes import mode_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_CHOOSE_FILES = {"pathglobfilter", "modifiedbefore", "modifiedafter", "recursivefilelookup"}
"""Options by which Spark skips files of a folder."""


def without_hidden(path: str) -> str:
    """Return a pattern whose leading placeholders do not match hidden names.

    Below a path Spark skips folders of unfinished writers, such as `_temporary`, but a pattern
    matches them.
    """
    parts = (re.sub(r"^[*?]", _visible, part) for part in path.split("/"))
    return "/".join(parts)


def _visible(placeholder: "re.Match[str]") -> str:
    return f"[^_.]{placeholder[0].replace('?', '')}"


def local_files(key: Key, spark: "SparkSession") -> Fingerprint | None:
    """Return the local files of a source; None if there are too many or only Spark can list them.

    Below a folder, folders without `=` in their names are not read.
    """
    if is_remote(key.path) or not (chooses_files(key) or PATTERN & set(key.path)):
        return _read_below(key.path)
    reader = spark.read.format("binaryFile").options(**dict(key.options))
    uris = mode_of(spark).input_files(reader.load(key.path))
    if len(uris) > MOST_FILES or not all(uri.startswith("file:") for uri in uris):
        return None
    found = set()
    for uri in uris:
        path = Path(unquote(re.sub("^file:/+", "/", uri)))
        if not path.is_file():
            return None  # a file of another machine, where a server reads
        stat = path.stat()
        found.add((str(path), stat.st_size, stat.st_mtime_ns))
    return frozenset(found)


def chooses_files(key: Key) -> bool:
    """Return True if Spark's options select some of the files."""
    return any(name.lower() in _CHOOSE_FILES for name, _ in key.options)


def _read_below(location: str) -> Fingerprint | None:
    found = fingerprint(location)
    if found is None:
        return None
    base = as_path(resolve_location(location)).rstrip("/").count("/") + 1
    return frozenset(
        file
        for file in found
        if all("=" in part for part in file[0].rpartition("/")[0].split("/")[base:])
    )
