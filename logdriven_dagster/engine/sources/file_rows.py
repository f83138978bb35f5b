"""Rows of source files by window, counted once for each version of a file.

The least and greatest time of each file decide which files a window has to read. Spark skips the
others when it plans a query, also where a format has no statistics, such as CSV.
"""

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from math import ceil, floor
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from logdriven_dagster.config.models.types.files import RecordsSource
from logdriven_dagster.config.models.types.sources import Source
from logdriven_dagster.engine.queries.quoting import quote_name, text_literal
from logdriven_dagster.engine.queries.window_values import find_position
from logdriven_dagster.engine.spark import functions as sf
from logdriven_dagster.model.source_rows import FileRows, FileVersion
from logdriven_dagster.model.windows import TimeWindow

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

METADATA = "_metadata"
"""Spark's hidden column with the file of each row."""
_NAME = f"{METADATA}.file_path"
_FILE = "_logdriven_file"
"""The column with the file of each row, while rows are counted by file."""
_MOST_CHOSEN = 5_000
"""The maximum number of files in a condition; a longer one costs more than it saves."""


@dataclass(frozen=True)
class FileSelection:
    """Selection of some files of a source, by the names that Spark gives them in each row."""

    locations: frozenset[str]
    is_inverted: bool = False
    """True to select all other files."""
    with_names: bool = False
    """True to add the name of its file to each row, for `group_by_file`."""

    def apply(self, frame: "DataFrame") -> "DataFrame":
        """Return the rows of the selected files; Spark opens no others.

        Of too many files, all rows are returned: the filter of a window keeps its own.
        """
        if len(self.locations) > _MOST_CHOSEN and not self.is_inverted:
            return self.add_name(frame)
        if self.locations or not self.is_inverted:
            names = ", ".join(map(text_literal, sorted(self.locations))) or "NULL"
            frame = frame.where(f"{_NAME} {'NOT ' if self.is_inverted else ''}IN ({names})")
        return self.add_name(frame)

    def add_name(self, frame: "DataFrame") -> "DataFrame":
        """Return the rows with the names of their files, if they are wanted."""
        return frame.withColumn(_FILE, sf.col(_NAME)) if self.with_names else frame

    def select_paths(self, paths: Iterable[str]) -> list[str]:
        """Return those of the paths that are selected."""
        named, others = self._paths, self.is_inverted
        return [path for path in paths if (path in named) is not others]

    @cached_property
    def _paths(self) -> frozenset[str]:
        return frozenset(map(local_path, self.locations))

    def select_columns(self, frame: "DataFrame", names: Iterable[str]) -> "DataFrame":
        """Return these columns of a frame, and the names of its files, if they are wanted."""
        return frame.select([*map(quote_name, names), *([_FILE] if self.with_names else [])])


ALL_FILES = FileSelection(frozenset(), is_inverted=True)


def local_path(uri: str) -> str:
    """Return the path of a local file from its URI in Spark."""
    return unquote(f"/{uri[5:].lstrip('/')}" if uri.startswith("file:/") else uri)


def plain_location(uri: str) -> str:
    """Return the path of a local file, or the URL of a remote one, from its URI in Spark."""
    return normalize_scheme(local_path(uri))


def normalize_scheme(location: str) -> str:
    """Return a location with the same scheme for all of Hadoop's names of S3."""
    return re.sub("^s3[an]://", "s3://", location) if location.startswith("s3") else location


def group_by_file(
    frame: "DataFrame", conditions: Mapping[str, str], position: str | None
) -> "DataFrame":
    """Return a query for the rows of each file; `read_groups` reads its result.

    `conditions` are those of rows outside any window, and `position` orders rows as windows do.
    """
    counts = [sf.count(sf.lit(1)).alias("total")]
    counts += [sf.expr(f"count_if({text})").alias(name) for name, text in conditions.items()]
    if position is not None:
        counts += [sf.expr(f"min({position})").alias("first")]
        counts += [sf.expr(f"max({position})").alias("last")]
    return frame.groupBy(sf.col(_FILE).alias("location")).agg(*counts)


def read_groups(groups: Iterable[Any], files: Collection[FileVersion]) -> list[FileRows] | None:
    """Return the rows of each file, also of empty ones; None if a row is of another file."""
    found = {plain_location(group["location"]): group.asDict() for group in groups}
    if not found.keys() <= {version.path for version in files}:
        return None
    return [_convert_group(found.get(version.path, {}), version) for version in files]


def _convert_group(group: Mapping[str, Any], version: FileVersion) -> FileRows:
    values = {"location": "", **group}
    for name, rounded in (("first", floor), ("last", ceil)):
        value = values.get(name)
        values[name] = value if value is None or isinstance(value, str) else rounded(value)
    return FileRows(version=version, **values)


def choose_files(
    source: Source, files: Iterable[FileRows], window: TimeWindow
) -> FileSelection | None:
    """Return the selection of the files that a window has to read; None for all.

    A text file with rows that have no time is always read: they may be malformed records. All files
    are read if a column whose type Spark infers has become text since the first of them.
    """
    column, files = source.window_column, tuple(files)
    kinds = {type(file.first) for file in files if file.first is not None}
    if column is None or len(kinds) > 1:
        return None
    first, end = (
        find_position(column, bound, window.zone, as_text=str in kinds)
        for bound in (window.start, window.end)
    )
    keeps_unplaced = isinstance(source, RecordsSource)
    chosen = frozenset(
        file.location
        for file in files
        if file.may_hold(first, end) or (keeps_unplaced and file.unplaced)
    )
    if len(chosen) == sum(1 for file in files if file.total):
        return None
    return FileSelection(chosen)
