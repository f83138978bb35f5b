"""Pointer files of a plain file target: they map each window to the folder with its rows.

A pointer `_windows/<data_range_start>.<fencing token>.<edition>.json` is never changed, and its
name is never reused. An attempt adds the first edition as a fence and the next one as its
publication. Of a window's pointers the one with the greatest token counts, so pointers of an
attempt that was fenced off are ignored. The previous pointer stays until the next publication, for
readers that listed the folder just before the change. The bounds in a pointer are texts with UTC
offsets, which mean the same in every zone; older texts without an offset are in the project's zone.
"""

import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING, TypeAlias
from zoneinfo import ZoneInfo

from logdriven_dagster.config.locations import as_path
from logdriven_dagster.engine.storage.locations import Folder
from logdriven_dagster.engine.storage.storage import DRAFT, Storage
from logdriven_dagster.engine.targets.files.summaries import read_many
from logdriven_dagster.errors import TransientStepError
from logdriven_dagster.model.windows import TimeWindow, parse_range_text

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

ALL = "all"
"""The name of the only pointer of a target in mode `overwrite`."""

_NAME = re.compile(r"([^.]+)(?:\.\d+)*\.json")
_LISTINGS = 20


@dataclass(frozen=True, slots=True)
class Pointer:
    """A published window of plain files: the contents of one pointer file."""

    data_range_start: str
    data_range_end: str
    folder: str
    """Below `data`; empty for a fence that was added before any publication."""
    files: tuple[str, ...]
    job_id: int
    step: str
    rows: int | None
    columns: str
    """The schema, as Spark's JSON."""
    previous: str | None = None
    """The folder that this one replaced."""
    fencing_token: int = 0
    fences: str | None = None
    """The newest `data_range_start` that was fenced under this name."""
    edition: int = 1
    """Sequence number among the pointers that the attempt with this token added under this name."""

    def window(self, zone: ZoneInfo) -> TimeWindow:
        """Return the window that the pointer publishes."""
        return _window(self.data_range_start, self.data_range_end, zone)

    def schema(self) -> "StructType":
        """Return the schema of the files that the pointer names."""
        from pyspark.sql.types import StructType

        return StructType.fromJson(json.loads(self.columns))

    def rank(self, zone: ZoneInfo) -> tuple[float, int, int]:
        """Return the sort key among pointers of one name: the newer window, then the token."""
        texts = filter(None, (self.data_range_start, self.fences))
        newest = max(epoch_seconds(text, zone) for text in texts)
        return newest, self.fencing_token, self.edition


def total(pointers: Iterable[Pointer]) -> int | None:
    """Return the row count of several pointers; None if one of them has no row count."""
    rows = [pointer.rows for pointer in pointers]
    return None if None in rows else sum(number or 0 for number in rows)


class Pointers:
    """The pointer files in a target's folder; `zone` is the project's."""

    def __init__(self, target: Folder, zone: ZoneInfo) -> None:
        self._folder, self._zone = target.get_subfolder("_windows"), zone

    def current(self) -> dict[str, Pointer]:
        """Map each name to its current pointer, including fences before the first publication."""
        newest: dict[str, Pointer] = {}
        for name, _, pointer in self._list_pointers():
            known = newest.get(name)
            if known is None or pointer.rank(self._zone) > known.rank(self._zone):
                newest[name] = pointer
        return newest

    def put(self, name: str, pointer: Pointer, old: Pointer | None) -> Pointer:
        """Add a pointer in place of the old current one, and return it as stored.

        Raises TransientStepError if the same attempt added another one since the old one was read.
        """
        again = old is not None and old.fencing_token == pointer.fencing_token
        pointer = replace(pointer, edition=old.edition + 1 if old and again else 1)
        place = self._build_path(f"{name}.{pointer.fencing_token}.{pointer.edition}.json")
        content = json.dumps(asdict(pointer), indent=1).encode()
        if not self._folder.storage.put_if_absent(place, content):
            raise TransientStepError(f"another writer has just created {as_path(place)}")
        return pointer

    def forget(self, name: str, keep: int) -> None:
        """Remove all pointers of a name except the `keep` newest."""
        for location in self._by_rank(name).get(name, [])[keep:]:
            self._folder.storage.remove(location)

    def folders(self) -> set[str]:
        """Return the folders that any pointer names, current or previous."""
        named = [
            p for _, _, pointer in self._list_pointers() for p in (pointer.folder, pointer.previous)
        ]
        return {folder for folder in named if folder}

    def leftovers(self) -> list[str]:
        """Return files that no reader needs: drafts, and pointers before the last two of a name."""
        drafts = [name for name in self._folder.names() if name.endswith(DRAFT)]
        superseded = [place for places in self._by_rank().values() for place in places[2:]]
        return [*superseded, *map(self._build_path, drafts)]

    def _by_rank(self, only: str | None = None) -> dict[str, list[str]]:
        """Map names, or only one, to the locations of their pointers, the current one first."""
        found: dict[str, list[tuple[tuple[float, int, int], str]]] = {}
        for name, location, pointer in self._list_pointers():
            if only in (None, name):
                found.setdefault(name, []).append((pointer.rank(self._zone), location))
        return {
            name: [location for _, location in sorted(ranked, reverse=True)]
            for name, ranked in found.items()
        }

    def place(self, name: str) -> str:
        """Return the file pattern of a name's pointers, for messages."""
        return f"{as_path(self._folder.location)}/{name}.*json"

    def _list_pointers(self) -> Iterator[tuple[str, str, Pointer]]:
        for _ in range(_LISTINGS):
            try:
                yield from list(self._read())
            except FileNotFoundError:
                continue  # a pointer was removed since the listing, so the listing is out of date
            return
        place = as_path(self._folder.location)
        raise TransientStepError(f"{place} changes faster than it can be read")

    def _read(self) -> Iterator[tuple[str, str, Pointer]]:
        listed = self._folder.storage.versions(self._folder.location)
        files = {file: version for file, version in listed.items() if _NAME.fullmatch(file)}
        found = {file: _KNOWN.get(self._key(file, version)) for file, version in files.items()}
        unknown = {file: files[file] for file, pointer in found.items() if pointer is None}
        if len(_KNOWN) + len(unknown) > _MOST_KNOWN:
            _KNOWN.clear()
        for file, values in read_many(self._folder, listed, unknown).items():
            pointer = replace(Pointer(**values), files=tuple(values["files"]))
            found[file] = _KNOWN[self._key(file, files[file])] = pointer
        for file, known in found.items():
            if known is not None:
                yield file.partition(".")[0], self._build_path(file), known

    def _build_path(self, file: str) -> str:
        return f"{self._folder.location}/{file}"

    def _key(self, file: str, version: int) -> "_Key":
        return self._folder.storage, self._build_path(file), version


_Key: TypeAlias = tuple[Storage, str, int]
_KNOWN: dict[_Key, Pointer] = {}
"""Cache of pointers: a table may have thousands.

The folder listing gives the version of each file, so that cached pointers need no request.
"""
_MOST_KNOWN = 100_000


@lru_cache(maxsize=100_000)
def epoch_seconds(text: str, zone: ZoneInfo) -> float:
    """Return the bound of a window in seconds of the epoch.

    Texts without an offset are ambiguous in an hour that exists twice.
    """
    return parse_range_text(text, zone).timestamp()


@lru_cache(maxsize=100_000)
def _window(start: str, end: str, zone: ZoneInfo) -> TimeWindow:
    return TimeWindow(parse_range_text(start, zone), parse_range_text(end, zone), zone=zone)


def find_foreign_file(folder: Folder) -> str | None:
    """Return the name of a file that another program put there before the first window."""
    names = folder.names()
    if "_windows" in names:
        return None
    return next((name for name in names if name[0] not in "._" and name != "data"), None)
