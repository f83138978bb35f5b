"""Plain files, published window by window.

Below the target's folder lie `data/<job_id>-<step>/`, and for each published window a pointer
`_windows/<data_range_start>.json` that names the folder, its files, columns and rows. `overwrite`
has a single pointer, `_windows/all.json`. A reader lists the pointers, leaves out those that lie
within a larger one, and reads the files that they name: old rows or new ones, never both. A
replaced folder stays until the window is replaced once more, for readers that hold its pointer.
"""

import json
import os
from dataclasses import asdict, dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo

from logdriven_dagster.config.steps import FileTarget
from logdriven_dagster.engine.iceberg_files import location, parquet_rows
from logdriven_dagster.engine.schemas import conform, merged
from logdriven_dagster.engine.session import option_text
from logdriven_dagster.engine.staging import (
    Place,
    StagedRows,
    Stamp,
    data_files,
    is_newer,
    local_path,
    read_files,
    remove_folder,
    staging_folder,
    write,
)
from logdriven_dagster.errors import TerminalStepError
from logdriven_dagster.model.runs import Published
from logdriven_dagster.model.windows import TimeWindow, parse_range_text, range_text

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

_ALL = "all"

_CSV = {
    "header": "true",
    # By default Spark trims text, escapes quotes in a way of its own, and reads a line break inside
    # a value as a new row.
    "ignoreLeadingWhiteSpace": "false",
    "ignoreTrailingWhiteSpace": "false",
    "escape": '"',
    "multiLine": "true",
}


@dataclass(frozen=True, slots=True)
class Pointer:
    """The contents of a pointer file."""

    data_range_start: str
    data_range_end: str
    folder: str
    files: tuple[str, ...]
    job_id: int
    step: str
    rows: int | None
    columns: str
    """The schema, as Spark's JSON."""
    previous: str | None = None
    """The folder that this one replaced."""

    def window(self, zone: ZoneInfo) -> TimeWindow:
        """The published window."""
        return _window(self.data_range_start, self.data_range_end, zone)


class WindowFiles:
    """A target of type `parquet`, `orc`, `csv` or `json`; see `Store`."""

    def __init__(self, place: Place, table: str, target: FileTarget) -> None:
        self._place, self._table, self._target = place, table, target
        default = place.project.warehouse.joinpath(*table.split("."))
        path = place.project.path(target.path) if target.path else str(default)
        self._folder = local_path(path, "target.path")
        self._options = dict(_CSV) if target.type == "csv" else {}
        self._options |= {name: option_text(value) for name, value in target.options.items()}

    def stage(self, frame: "DataFrame", stamp: Stamp) -> StagedRows:
        """Write files into a folder that no pointer names yet."""
        frame = conform(frame, self._known_schema(), self._table)
        folder = staging_folder(self._folder / "data", stamp)
        writer = frame.write.format(self._target.type).mode("append").options(**self._options)
        try:
            counts = write(frame, stamp, lambda: writer.save(str(folder)))
            rows, files = self._written(folder, counts.written)
        except BaseException:
            remove_folder(folder)
            raise
        names = tuple(location(path) for path in files)
        return StagedRows(stamp, str(folder), frame.schema, counts.source, rows, names)

    def _written(self, folder: Path, written: int | None) -> tuple[int | None, list[Path]]:
        """Rows and files: exact from footers where there are some, else from the writer."""
        files = data_files(folder)
        if self._target.type not in FOOTERS:
            return written, files if written != 0 else []
        rows = {path: FOOTERS[self._target.type](path) for path in files}
        return sum(rows.values()), [path for path, count in rows.items() if count]

    def staged_frame(self, staged: StagedRows) -> "DataFrame":
        """The staged files, read with the schema and options that wrote them."""
        return self._read_files(staged.files, staged.schema)

    def publish(self, staged: StagedRows) -> Published:
        """Switch the window's pointer; the rename is the commit."""
        folder = Path(staged.location).name
        name, window = self._pointer_name(staged.stamp), staged.stamp.window
        pointers = self._pointers()
        done = Published(staged.stamp.step_id, str(self._folder), None, staged.rows)
        old = pointers.get(name)
        if old is not None and old.folder == folder:
            return done
        if name == _ALL and old is not None and is_newer(old.data_range_start, window):
            return replace(done, rows=0)
        self._refuse_larger(pointers, name, window)
        pointer = Pointer(
            range_text(window.start),
            range_text(window.end),
            folder,
            tuple(path.rsplit("/", 1)[-1] for path in staged.files),
            staged.stamp.job_id,
            staged.stamp.step_id,
            staged.rows,
            staged.schema.json(),
            old.folder if old else None,
        )
        _write_atomically(self._pointer_path(name), json.dumps(asdict(pointer), indent=1))
        self._forget(pointers, name, window)
        return done

    def _forget(self, pointers: dict[str, Pointer], name: str, window: TimeWindow) -> None:
        """Remove what nobody reads any more, now that the new pointer hides it."""
        if (old := pointers.get(name)) and old.previous:
            remove_folder(self._folder / "data" / old.previous)
        for other, pointer in pointers.items():
            if other != name and (name == _ALL or window.contains(self._window(pointer))):
                self._pointer_path(other).unlink(missing_ok=True)

    def _refuse_larger(self, pointers: dict[str, Pointer], name: str, window: TimeWindow) -> None:
        """A window cannot be cut out of a larger one, whose files hold other rows, too."""
        for other, pointer in pointers.items():
            held = self._window(pointer)
            apart = name == _ALL or not held.overlaps(window) or window.contains(held)
            if other != name and (other == _ALL or not apart):
                raise TerminalStepError(
                    f"{self._table}: {window} is part of {held if other != _ALL else 'a table'} "
                    f"that was published as a whole; move {self._pointer_path(other)} away "
                    "to publish smaller windows"
                )

    def discard(self, staged: StagedRows) -> None:
        """Remove the staging folder."""
        remove_folder(staged.location)

    def read(self, window: TimeWindow | None) -> "DataFrame":
        """The files that the pointers of these windows name."""
        pointers = self._pointers()
        if not pointers:
            raise TerminalStepError(f"{self._table} was never published, so it cannot be read")
        schema = merged([_schema(pointer) for pointer in _distinct(pointers)], self._table)
        files = [
            location(self._folder / "data" / pointer.folder / name)
            for pointer in self._visible(pointers)
            if window is None or window.contains(self._window(pointer))
            for name in pointer.files
        ]
        return self._read_files(files, schema)

    def _visible(self, pointers: dict[str, Pointer]) -> list[Pointer]:
        """Without those inside a larger window, which replaced them a moment ago."""
        if whole := pointers.get(_ALL):
            return [whole]
        windows = {name: self._window(pointer) for name, pointer in pointers.items()}
        ordered = sorted(windows.values(), key=lambda held: (held.start, -held.end.timestamp()))
        shown: list[TimeWindow] = []
        for held in ordered:
            if not shown or not shown[-1].contains(held):
                shown.append(held)
        return [pointers[name] for name, held in windows.items() if held in set(shown)]

    def _read_files(self, files: list[str] | tuple[str, ...], schema: "StructType") -> "DataFrame":
        return read_files(self._place.spark, self._target.type, files, schema, self._options)

    def _known_schema(self) -> "StructType | None":
        pointers = self._pointers()
        if not pointers:
            return None
        return merged([_schema(pointer) for pointer in _distinct(pointers)], self._table)

    def _window(self, pointer: Pointer) -> TimeWindow:
        return pointer.window(self._place.project.zone)

    def _pointer_name(self, stamp: Stamp) -> str:
        return _ALL if self._target.mode == "overwrite" else range_text(stamp.window.start)

    def _pointer_path(self, name: str) -> Path:
        return self._folder / "_windows" / f"{name}.json"

    def _pointers(self) -> dict[str, Pointer]:
        folder = self._folder / "_windows"
        found = {}
        for entry in os.scandir(folder) if folder.is_dir() else ():
            if entry.name.endswith(".json"):
                try:
                    # A pointer is never written to, only replaced: then its inode differs.
                    pointer = _pointer(entry.path, entry.inode(), entry.stat().st_mtime_ns)
                except FileNotFoundError:
                    continue  # replaced by a larger window since the listing
                found[entry.name.removesuffix(".json")] = pointer
        return found


@lru_cache(maxsize=100_000)
def _pointer(path: str, _inode: int, _changed: int) -> Pointer:
    """The pointer in a file of this identity, read once: a table may have thousands."""
    values = json.loads(Path(path).read_text(encoding="utf-8"))
    return replace(Pointer(**values), files=tuple(values["files"]))


@lru_cache(maxsize=100_000)
def _window(start: str, end: str, zone: ZoneInfo) -> TimeWindow:
    return TimeWindow(parse_range_text(start, zone), parse_range_text(end, zone))


def _distinct(pointers: dict[str, Pointer]) -> list[Pointer]:
    """One pointer for each schema, so that a thousand windows need no thousand comparisons."""
    return list({pointer.columns: pointer for pointer in pointers.values()}.values())


def _schema(pointer: Pointer) -> "StructType":
    from pyspark.sql.types import StructType

    return StructType.fromJson(json.loads(pointer.columns))


def _write_atomically(path: Path, text: str) -> None:
    """Old text or new text, also after a crash."""
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_suffix(f".{os.getpid()}.draft")
    with draft.open("w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    draft.replace(path)


def _orc_rows(path: Path) -> int:
    from pyarrow.orc import ORCFile

    return int(ORCFile(str(path)).nrows)


FOOTERS = {"parquet": parquet_rows, "orc": _orc_rows}
"""Formats whose files say how many rows they hold."""
