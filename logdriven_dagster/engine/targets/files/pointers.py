"""The pointer files of a target of plain files: which folder holds which window's rows.

A pointer `_windows/<data_range_start>.<fencing token>.json` is never changed, only replaced: an
attempt puts it up twice at most, as a fence and as its publication. Of a window's pointers the one
with the greatest token counts, so that an attempt that was shut out can write what it likes: nobody
looks at it. The one before stays until the next, for readers that have listed the folder at an
unlucky moment. Pointers without a token were written by version 0.1.
"""

import json
import os
import re
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo

from logdriven_dagster.errors import TransientStepError
from logdriven_dagster.model.windows import TimeWindow, parse_range_text

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

ALL = "all"
"""The name of the only pointer of a target that is replaced as a whole."""

_NAME = re.compile(r"([^.]+)(?:\.(\d+))?\.json")
_LISTINGS = 20


@dataclass(frozen=True, slots=True)
class Pointer:
    """The contents of a pointer file."""

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

    def window(self, zone: ZoneInfo) -> TimeWindow:
        """The published window."""
        return _window(self.data_range_start, self.data_range_end, zone)

    def schema(self) -> "StructType":
        """The columns of the files."""
        from pyspark.sql.types import StructType

        return StructType.fromJson(json.loads(self.columns))

    def rank(self, zone: ZoneInfo) -> tuple[float, int]:
        """What decides between two pointers of one name: the newer window, then the token."""
        texts = filter(None, (self.data_range_start, self.fences))
        return max(moment(text, zone) for text in texts), self.fencing_token


def total(pointers: Iterable[Pointer]) -> int | None:
    """The rows of several pointers together; None if one of them does not tell its own."""
    rows = [pointer.rows for pointer in pointers]
    return None if None in rows else sum(number or 0 for number in rows)


class Pointers:
    """The pointer files of one target; `zone` is the project's."""

    def __init__(self, folder: Path, zone: ZoneInfo) -> None:
        self._folder, self._zone = folder / "_windows", zone

    def current(self) -> dict[str, Pointer]:
        """Name → the pointer that counts, fences before the first publication included."""
        newest: dict[str, Pointer] = {}
        for name, _, pointer in self._listed():
            known = newest.get(name)
            if known is None or pointer.rank(self._zone) > known.rank(self._zone):
                newest[name] = pointer
        return newest

    def put(self, name: str, pointer: Pointer) -> None:
        """Write a pointer; the rename is the moment at which it counts."""
        path = self._folder / f"{name}.{pointer.fencing_token}.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        draft = path.with_suffix(f".{os.getpid()}.draft")
        with draft.open("w", encoding="utf-8") as file:
            json.dump(asdict(pointer), file, indent=1)
            file.flush()
            os.fsync(file.fileno())
        draft.replace(path)

    def forget(self, name: str, keep: int) -> None:
        """Remove a name's pointers but the `keep` newest."""
        for path in self._by_rank(name).get(name, [])[keep:]:
            Path(path).unlink(missing_ok=True)

    def folders(self) -> set[str]:
        """The folders that any pointer names, for readers of now or of a moment ago."""
        named = [p for _, _, pointer in self._listed() for p in (pointer.folder, pointer.previous)]
        return {folder for folder in named if folder}

    def superseded(self) -> list[Path]:
        """The pointers that nobody looks at any more; the last one before each is kept."""
        return [Path(path) for paths in self._by_rank().values() for path in paths[2:]]

    def _by_rank(self, only: str | None = None) -> dict[str, list[str]]:
        """Name → its pointers, the one that counts first; of all names, or of one."""
        found: dict[str, list[tuple[tuple[float, int], str]]] = {}
        for name, path, pointer in self._listed():
            if only in (None, name):
                found.setdefault(name, []).append((pointer.rank(self._zone), path))
        return {
            name: [path for _, path in sorted(paths, reverse=True)] for name, paths in found.items()
        }

    def place(self, name: str) -> str:
        """Where people find the pointers of a name."""
        return f"{self._folder}/{name}.*json"

    def _listed(self) -> Iterator[tuple[str, str, Pointer]]:
        for _ in range(_LISTINGS):
            try:
                yield from list(self._read())
            except FileNotFoundError:
                continue  # a pointer was replaced since the listing, so the listing is out of date
            return
        raise TransientStepError(f"{self._folder} changes faster than it can be read")

    def _read(self) -> Iterator[tuple[str, str, Pointer]]:
        for entry in os.scandir(self._folder) if self._folder.is_dir() else ():
            if match := _NAME.fullmatch(entry.name):
                yield match[1], entry.path, _pointer(entry.path, entry.inode())


@lru_cache(maxsize=100_000)
def _pointer(path: str, _inode: int) -> Pointer:
    """The pointer in a file of this identity, read once: a table may have thousands.

    What replaces a file is there beside it before, so its number is another one; the listing tells
    it, and no file is looked at by itself.
    """
    values = json.loads(Path(path).read_text(encoding="utf-8"))
    return replace(Pointer(**values), files=tuple(values["files"]))


@lru_cache(maxsize=100_000)
def moment(text: str, zone: ZoneInfo) -> float:
    """The bound of a window in seconds of the epoch. Texts of an hour that exists twice mislead."""
    return parse_range_text(text, zone).timestamp()


@lru_cache(maxsize=100_000)
def _window(start: str, end: str, zone: ZoneInfo) -> TimeWindow:
    return TimeWindow(parse_range_text(start, zone), parse_range_text(end, zone))
