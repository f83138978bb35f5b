"""The pointer files of a target of plain files: which folder holds which window's rows.

A pointer `_windows/<data_range_start>.<fencing token>.<edition>.json` is never changed, nor is its
name ever given to another one: an attempt puts up the first edition as a fence and the next one as
its publication. Of a window's pointers the one with the greatest token counts, so that an attempt
that was shut out can write what it likes: nobody looks at it. The one before stays until the next,
for readers that have listed the folder at an unlucky moment. What a pointer says of its window are
texts with offsets, which mean the same in every zone; older ones without are of the project's zone.
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
"""The name of the only pointer of a target that is replaced as a whole."""

_NAME = re.compile(r"([^.]+)(?:\.\d+)*\.json")
_LISTINGS = 20


@dataclass(frozen=True, slots=True)
class Pointer:
    """A published window of plain files: the contents of one pointer file."""

    data_range_start: str
    data_range_end: str
    folder: str
    """Below `data`; empty where a fence was put up before anything was published."""
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
    """The newest `data_range_start` for which a fence was put up under this name."""
    edition: int = 1
    """Which one it is of those that the attempt with this token has put up under this name."""

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
        newest = max(moment(text, zone) for text in texts)
        return newest, self.fencing_token, self.edition


def total(pointers: Iterable[Pointer]) -> int | None:
    """Return the rows of several pointers together; None if one of them does not tell its own."""
    rows = [pointer.rows for pointer in pointers]
    return None if None in rows else sum(number or 0 for number in rows)


class Pointers:
    """The pointer files of the target in a folder; `zone` is the project's."""

    def __init__(self, target: Folder, zone: ZoneInfo) -> None:
        self._folder, self._zone = target.within("_windows"), zone

    def current(self) -> dict[str, Pointer]:
        """Name → the pointer that counts, fences before the first publication included."""
        newest: dict[str, Pointer] = {}
        for name, _, pointer in self._listed():
            known = newest.get(name)
            if known is None or pointer.rank(self._zone) > known.rank(self._zone):
                newest[name] = pointer
        return newest

    def put(self, name: str, pointer: Pointer, old: Pointer | None) -> Pointer:
        """Put up a pointer in place of the old one that counts, and give it back as it is there.

        TransientStepError if the same attempt has put up another one since the old one was read.
        """
        again = old is not None and old.fencing_token == pointer.fencing_token
        pointer = replace(pointer, edition=old.edition + 1 if old and again else 1)
        place = self._at(f"{name}.{pointer.fencing_token}.{pointer.edition}.json")
        content = json.dumps(asdict(pointer), indent=1).encode()
        if not self._folder.storage.put_if_absent(place, content):
            raise TransientStepError(f"another writer has just put up {as_path(place)}")
        return pointer

    def forget(self, name: str, keep: int) -> None:
        """Remove a name's pointers but the `keep` newest."""
        for location in self._by_rank(name).get(name, [])[keep:]:
            self._folder.storage.remove(location)

    def folders(self) -> set[str]:
        """Return the folders that any pointer names, for readers of now or of a moment ago."""
        named = [p for _, _, pointer in self._listed() for p in (pointer.folder, pointer.previous)]
        return {folder for folder in named if folder}

    def leftovers(self) -> list[str]:
        """Return what no reader needs: drafts, and pointers but the current and the last one."""
        drafts = [name for name in self._folder.names() if name.endswith(DRAFT)]
        superseded = [place for places in self._by_rank().values() for place in places[2:]]
        return [*superseded, *map(self._at, drafts)]

    def _by_rank(self, only: str | None = None) -> dict[str, list[str]]:
        """Name → where its pointers are, the one that counts first; of all names, or of one."""
        found: dict[str, list[tuple[tuple[float, int, int], str]]] = {}
        for name, location, pointer in self._listed():
            if only in (None, name):
                found.setdefault(name, []).append((pointer.rank(self._zone), location))
        return {
            name: [location for _, location in sorted(ranked, reverse=True)]
            for name, ranked in found.items()
        }

    def place(self, name: str) -> str:
        """Return where people find the pointers of a name."""
        return f"{as_path(self._folder.location)}/{name}.*json"

    def _listed(self) -> Iterator[tuple[str, str, Pointer]]:
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
                yield file.partition(".")[0], self._at(file), known

    def _at(self, file: str) -> str:
        return f"{self._folder.location}/{file}"

    def _key(self, file: str, version: int) -> "_Key":
        return self._folder.storage, self._at(file), version


_Key: TypeAlias = tuple[Storage, str, int]
_KNOWN: dict[_Key, Pointer] = {}
"""Pointers that were read before: a table may have thousands. The listing tells the version of each
file, so that none is looked at by itself."""
_MOST_KNOWN = 100_000


@lru_cache(maxsize=100_000)
def moment(text: str, zone: ZoneInfo) -> float:
    """The bound of a window in seconds of the epoch. Texts of an hour that exists twice mislead."""
    return parse_range_text(text, zone).timestamp()


@lru_cache(maxsize=100_000)
def _window(start: str, end: str, zone: ZoneInfo) -> TimeWindow:
    return TimeWindow(parse_range_text(start, zone), parse_range_text(end, zone), zone=zone)


def file_of_others(folder: Folder) -> str | None:
    """The name of a file that others have put into a folder before the first window."""
    names = folder.names()
    if "_windows" in names:
        return None
    return next((name for name in names if name[0] not in "._" and name != "data"), None)
