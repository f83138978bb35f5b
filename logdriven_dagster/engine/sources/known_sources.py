"""Cache of Spark's findings about source files: inspected once, not for every window."""

import os
import re
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import chain, islice
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias, TypeVar

from logdriven_dagster.config.locations import as_path, resolve_location
from logdriven_dagster.engine.spark.modes import mode_of
from logdriven_dagster.model.files import FoundFile
from logdriven_dagster.model.source_rows import FileVersion, SourceRows

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, DataFrameReader, SparkSession
    from pyspark.sql.types import StructType

_T = TypeVar("_T")
PATTERN = set("*?[]{}\\")
VISIBLE = "[^_.]"
"""The part of a pattern that matches the first character of a name that is not hidden."""
MOST_FILES = 200_000
"""The maximum number of files of a source that are listed here: 0.1 KB of memory each."""
_MOST_TRUSTED = 10_000
_MOST_SOURCES = 100
"""The limit: paths may differ for every window, and each frame keeps its session alive."""

Fingerprint: TypeAlias = frozenset[tuple[str, int, int]]
"""Path, size, and a number for the version of every file.

The number is the modification time of a local file in nanoseconds, or a hash of a remote one's tag.
"""

FileVersions: TypeAlias = frozenset[FileVersion]
"""The versions of all files of a source."""


@dataclass
class Listings:
    """The files of sources that the present step has listed, and what follows from them."""

    remote: dict[str, list[FoundFile]] = field(default_factory=dict)
    """Path in an object store → its files."""
    _facts: dict[Hashable, Any] = field(default_factory=dict)

    def find_versions(self, path: str) -> FileVersions | None:
        """Return the files of a local path, listed once; see `list_local_versions`."""
        return self.remember(("versions", path), lambda: list_local_versions(path))

    def find_files(self, path: str) -> Fingerprint | None:
        """Return the files of a local path, listed once; see `fingerprint`."""
        return self.remember(("files", path), lambda: _without_changes(self.find_versions(path)))

    def remember(self, what: Hashable, find: Callable[[], _T]) -> _T:
        """Return a fact about the files, which is found once."""
        if what not in self._facts:
            self._facts[what] = find()
        found: _T = self._facts[what]
        return found

    def clear(self) -> None:
        """Forget all files, so that later ones are found."""
        self.remote.clear()
        self._facts.clear()


class Key(NamedTuple):
    """A path, and the reader with which it is read."""

    path: str
    format: str
    columns: str | None
    options: tuple[tuple[str, str], ...]


@dataclass
class _Known:
    found: Fingerprint
    frame: "DataFrame"
    schema: "StructType"
    names: tuple[str, ...] | None = None

    @property
    def is_partitioned(self) -> bool:
        """True if a window may read only some of the files."""
        return any("=" in path for path, _, _ in self.found)


class KnownSources:
    """Cache of Spark's findings about local files, valid while each is the same and none is new."""

    def __init__(self) -> None:
        self._known: OrderedDict[Key, _Known] = OrderedDict()
        self._schemas: OrderedDict[Key, tuple[Hashable, StructType]] = OrderedDict()
        self._trusted: OrderedDict[Hashable, frozenset[Hashable]] = OrderedDict()
        self._adding = Lock()

    def load(
        self,
        key: Key,
        spark: "SparkSession",
        reader: "DataFrameReader",
        found: Fingerprint | None,
        *,
        typed: bool,
    ) -> "DataFrame":
        """Load the files below a path, which are the `found` ones.

        `typed` readers have the columns, and open no file.
        """
        mode = mode_of(spark)
        if typed and not mode.capabilities.lists_files_eagerly:
            return reader.load(key.path)
        known = self._known.get(key)
        if known is not None and known.found == found:
            again = mode.again(known.frame, spark)
            return reader.schema(known.schema).load(key.path) if again is None else again
        frame = reader.load(key.path)
        if found is not None:
            schema = frame.schema
            with self._adding:  # concurrent windows share the sources
                self._known[key] = _Known(found, frame, schema)
                if len(self._known) > _MOST_SOURCES:
                    self._known.popitem(last=False)
        return frame

    def find_schema(
        self, key: Key, samples: Hashable, ask: Callable[[], "StructType"]
    ) -> "StructType":
        """Return the schema that Spark infers from some files, inferred once for each of them."""
        known = self._schemas.get(key)
        if known is None or known[0] != samples:
            known = samples, ask()
            with self._adding:
                self._schemas[key] = known
                if len(self._schemas) > _MOST_SOURCES:
                    self._schemas.popitem(last=False)
        return known[1]

    def trust(self, what: Hashable, files: frozenset[Hashable] | None) -> None:
        """Record a fact about versions of files; None, if they are not known, is ignored."""
        if files is None:
            return
        with self._adding:
            known = self._trusted.get(what, frozenset())
            self._trusted[what] = files if len(known) > _MOST_TRUSTED else files | known
            if len(self._trusted) > _MOST_SOURCES:
                self._trusted.popitem(last=False)

    def are_trusted(self, what: Hashable, files: frozenset[Hashable] | None) -> bool:
        """Return True if a fact was recorded for all of these versions of files."""
        return files is not None and files <= self._trusted.get(what, frozenset())

    def names(
        self, key: Key, found: Fingerprint | None, ask: Callable[[], tuple[str, ...]]
    ) -> tuple[str, ...]:
        """Return the `found` files behind a loaded frame; cached if windows read all of them."""
        known = self._known.get(key)
        if known is not None and known.found != found:
            known = None
        if known is not None and known.names is not None:
            return known.names
        names = ask()
        if known is not None and not known.is_partitioned:
            known.names = names
        return names


def fingerprint(path: str) -> Fingerprint | None:
    """Return path, size and time of a local file, or of all in a folder; None if not known.

    Of patterns, those of `*` and `?` are known. They may include files that Spark does not read.
    """
    return _without_changes(list_local_versions(path))


def _without_changes(versions: FileVersions | None) -> Fingerprint | None:
    if versions is None:
        return None
    return frozenset((each.path, each.size, each.modified) for each in versions)


def list_local_versions(path: str) -> FileVersions | None:
    """Return the version of a local file, or of all files in a folder; None as `fingerprint`."""
    text = as_path(resolve_location(path))
    if ":" in text or (PATTERN - set("*?")) & set(text.replace(VISIBLE, "")):
        return None
    try:
        roots = _match(text) if PATTERN & set(text) else [text]
        found = frozenset(islice(chain.from_iterable(map(_at, roots)), MOST_FILES + 1))
        return found if 0 < len(found) <= MOST_FILES else None
    except OSError:
        return None


def _match(pattern: str) -> Iterator[str]:
    """Yield the paths that a pattern matches, as Hadoop's globs do."""
    fixed, _, names = pattern.partition("/")
    found = [f"{fixed}/"]
    for name in names.split("/"):
        if not PATTERN & set(name):
            found = [f"{folder.rstrip('/')}/{name}" for folder in found]
            continue
        tokens = re.findall(rf"{re.escape(VISIBLE)}|.", name)
        texts = {VISIBLE: VISIBLE, "*": ".*", "?": "."}
        wanted = re.compile("".join(texts.get(token) or re.escape(token) for token in tokens))
        found = [
            entry.path
            for folder in found
            if Path(folder).is_dir()
            for entry in os.scandir(folder)
            if wanted.fullmatch(entry.name)
        ]
    yield from (path for path in found if Path(path).exists())


def _at(root: str) -> Iterator[FileVersion]:
    if Path(root).is_dir():
        yield from _below(root)
    else:
        yield read_version(root)


def read_version(path: str) -> FileVersion:
    """Return the present version of a local file. Raises OSError if it cannot be found."""
    return _build_version(path, os.stat(path))  # noqa: PTH116 - a path object costs as much


def _build_version(path: str, stat: os.stat_result) -> FileVersion:
    return FileVersion(path, stat.st_size, stat.st_ctime_ns, stat.st_mtime_ns)


def _below(folder: str) -> Iterator[FileVersion]:
    for entry in os.scandir(folder):
        if not entry.is_dir():
            yield _build_version(entry.path, entry.stat())
        elif entry.is_symlink():
            raise OSError(f"the place of {entry.path} is unknown")
        elif not is_hidden(entry.name):
            yield from _below(entry.path)


def is_hidden(name: str) -> bool:
    """Return True if Spark skips a folder of this name, as writers name unfinished ones."""
    return name.startswith(".") or (name.startswith("_") and "=" not in name)


Recall = Callable[[str], Iterable[SourceRows]]
"""A function that returns earlier processes' counts for the sources of a table."""


class Looks:
    """Cache of the counts of tables' sources, valid while their files stay the same."""

    def __init__(self, recall: Recall = lambda _: ()) -> None:
        self._recall, self._recalled = recall, set[str]()
        self._known: dict[tuple[str, str], SourceRows] = {}
        self._files: dict[tuple[str, str], FileVersions] = {}
        self._asked = set[tuple[str, str]]()

    def is_first(self, table: str, step: str) -> bool:
        """Return True the first time that a step's source is searched for rows of windows."""
        is_first = (table, step) not in self._asked
        self._asked.add((table, step))
        return is_first

    def find(self, table: str, step: str) -> SourceRows | None:
        """Return the counts of a step's source that were recorded last, here or in the run log."""
        if table not in self._recalled:
            self._recalled.add(table)
            for rows in self._recall(table):
                self._known.setdefault((rows.table, rows.step_id), rows)
        return self._known.get((table, step))

    def is_current(self, rows: SourceRows, files: FileVersions | None) -> bool:
        """Return True if the counts are of these files, as far as this process has verified it."""
        return files is not None and self._files.get((rows.table, rows.step_id)) == files

    def keep(self, rows: SourceRows, files: FileVersions) -> None:
        """Record the counts of these files."""
        self._known[rows.table, rows.step_id] = rows
        self._files[rows.table, rows.step_id] = files
