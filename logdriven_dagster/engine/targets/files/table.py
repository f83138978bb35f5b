"""Plain files, published window by window.

Below the target's folder lie `data/<job_id>-<step>/` and for each published window a pointer that
names the folder, its files, columns and rows; `overwrite` has a single one. A reader lists the
pointers, leaves out those that lie within a larger one, and reads the files that they name: old
rows or new ones, never both. A replaced folder stays until the window is replaced once more, for
readers that hold its pointer.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo

from logdriven_dagster.config.models.steps import FileTarget
from logdriven_dagster.config.project import Project
from logdriven_dagster.engine.queries.schemas import conform, merged
from logdriven_dagster.engine.sources.files.records import NOTHING
from logdriven_dagster.engine.spark.settings import option_texts
from logdriven_dagster.engine.storage.staging import (
    Place,
    StagedRows,
    Stamp,
    data_files,
    is_below,
    is_newer,
    local_path,
    read_files,
    remove_folder,
    staging_folder,
    write,
)
from logdriven_dagster.engine.storage.stretch_staging import Pass, stage_folders
from logdriven_dagster.engine.targets.files.limits import storable
from logdriven_dagster.engine.targets.files.pointers import ALL, Pointer, Pointers, moment, total
from logdriven_dagster.engine.targets.first_contact import file_of_others
from logdriven_dagster.engine.targets.iceberg.files import location, parquet_rows
from logdriven_dagster.errors import NotPublishedError, TerminalStepError
from logdriven_dagster.model.runs import Published
from logdriven_dagster.model.windows import TimeWindow, range_text

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.readwriter import DataFrameWriter
    from pyspark.sql.types import StructType

_TIMES = {
    # By default Spark cuts times off at the millisecond, and offsets at the minute.
    "timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXXXX",
    "timestampNTZFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSS",
}
_CSV = {
    **_TIMES,
    "header": "true",
    # By default Spark trims text, escapes quotes in a way of its own, and reads a line break inside
    # a value as a new row.
    "ignoreLeadingWhiteSpace": "false",
    "ignoreTrailingWhiteSpace": "false",
    "escape": '"',
    "multiLine": "true",
}
_JSON = {
    **_TIMES,
    # Otherwise a column of which all values are NULL is not there for other readers.
    "ignoreNullFields": "false",
}
_WRITTEN = {"csv": _CSV, "json": _JSON}
_STRICT = {
    "mode": "FAILFAST",
    # Files of before had milliseconds.
    "timestampFormat": "yyyy-MM-dd'T'HH:mm:ss[.SSSSSS][.SSS]XXXXX",
    "timestampNTZFormat": "yyyy-MM-dd'T'HH:mm:ss[.SSSSSS][.SSS]",
}
_READ = {"csv": {**_CSV, **_STRICT, "nullValue": NOTHING}, "json": _STRICT}
"""NULL has no text in CSV, where an empty text is `""`."""


class WindowFiles:
    """A target of type `parquet`, `orc`, `csv` or `json`; see `Store`."""

    def __init__(self, place: Place, table: str, target: FileTarget) -> None:
        self._place, self._table, self._target = place, table, target
        self._folder = files_folder(place.project, table, target)
        self._zone = place.project.zone
        self._pointers = Pointers(self._folder, self._zone)
        given = option_texts(target.options)
        self._options = {**_WRITTEN.get(target.type, {}), **given}
        self._read_options = {**_READ.get(target.type, {}), **given}

    def stage(self, frame: "DataFrame", stamp: Stamp) -> StagedRows:
        """Write files into a folder that no pointer names yet."""
        self._refuse_others()
        missing = self._place.missing_columns(stamp.table)
        frame = conform(frame, self._known_schema(), self._table, missing=missing)
        frame = storable(frame, self._target.type)
        folder = staging_folder(self._folder / "data", stamp)
        writer = frame.write.format(self._target.type).mode("append").options(**self._options)
        try:
            counts = write(frame, stamp, lambda: writer.save(str(folder)))
            rows, files = self._written(folder, counts.written)
        except BaseException:
            remove_folder(folder)
            raise
        names = tuple(location(path) for path in files)
        return StagedRows(
            stamp,
            str(folder),
            frame.schema,
            counts.source,
            rows,
            names,
            stamp.fencing_token,
            most_rows=counts.most,
        )

    def stage_windows(self, frame: "DataFrame", stamps: Sequence[Stamp]) -> Pass:
        """Write the files of several windows in one pass; they tell how many rows they have."""
        missing = self._place.missing_columns(stamps[0].table)
        frame = conform(frame, self._known_schema(), self._table, missing=missing)
        frame = storable(frame, self._target.type)

        def save(writer: "DataFrameWriter", path: str) -> None:
            writer.format(self._target.type).options(**self._options).save(path)

        count = FOOTERS[self._target.type]
        return stage_folders(frame, self._folder / "data", stamps, save, count)

    def _refuse_others(self) -> None:
        """TerminalStepError if others have put something there before the first window."""
        if self._target.existing_rows == "refuse" and (other := file_of_others(self._folder)):
            raise TerminalStepError(
                f"{self._table}: {self._folder} holds {other}, which no window wrote, and which no "
                "reader of this table would see. Move it away, write another `path` in the target, "
                "or `existing_rows: keep` to leave it there unread"
            )

    def _written(self, folder: Path, written: int | None) -> tuple[int | None, list[Path]]:
        """Rows and files: exact from footers where there are some, else from the writer."""
        files = data_files(folder)
        if self._target.type not in FOOTERS:
            return written, files if written != 0 else []
        rows = {path: FOOTERS[self._target.type](path) for path in files}
        return sum(rows.values()), [path for path, count in rows.items() if count]

    def staged_frame(self, staged: StagedRows) -> "DataFrame":
        """The staged files, read with the schema and options that wrote them."""
        return self.windows_frame([staged])

    def windows_frame(self, staged: Sequence[StagedRows]) -> "DataFrame":
        """The staged files of several windows, with the schema and options that wrote them."""
        files = [path for rows in staged for path in rows.files]
        return self._read_files(files, staged[0].schema)

    def holds(self, staged: StagedRows) -> bool:
        """Whether the staged files are there, and those with footers whole."""
        if not is_below(staged, self._folder / "data"):
            return False
        files = [Path(path.removeprefix("file://")) for path in staged.files]
        if not Path(staged.location).is_dir() or not all(file.is_file() for file in files):
            return False
        if self._target.type not in FOOTERS:
            return True
        try:
            return sum(map(FOOTERS[self._target.type], files)) == staged.rows
        except (OSError, ValueError):
            return False

    def publish(self, staged: StagedRows, verify: Callable[[], None]) -> Published:
        """Put up the window's pointer; of two that are put up at once the greater token counts."""
        return self._publish(staged, verify, self._pointers.current())

    def publish_windows(
        self, staged: Sequence[StagedRows], verify: Callable[[], None]
    ) -> tuple[Published, ...]:
        """Put up the pointers of several windows one by one, the oldest first."""
        pointers = self._pointers.current()
        return tuple(self._publish(rows, verify, pointers) for rows in staged)

    def _publish(
        self, staged: StagedRows, verify: Callable[[], None], pointers: dict[str, Pointer]
    ) -> Published:
        stamp, window = staged.stamp, staged.stamp.window
        name = self._name(window)
        done = Published(stamp.step_id, str(self._folder), None, staged.rows)
        old = pointers.get(name)
        self._refuse_superseded(old, stamp)
        if old is not None and old.folder == Path(staged.location).name:
            return replace(done, table_rows=total(pointers.values()))
        if name == ALL and old and old.folder and is_newer(old.data_range_start, window):
            return replace(done, rows=0, table_rows=old.rows)
        self._refuse_larger(pointers, name, window)
        verify()
        new = _pointer_to(staged, old)
        self._pointers.put(name, new)
        self._forget(pointers, name, window)
        pointers[name] = new
        return replace(done, table_rows=total(pointers.values()))

    def fence(self, stamp: Stamp) -> None:
        """Put up what is published once more, under the new token: older ones count no more."""
        self.fence_windows([stamp])

    def fence_windows(self, stamps: Sequence[Stamp]) -> None:
        """Put up what is published of several windows once more, under their new tokens."""
        pointers = self._pointers.current()
        for stamp in stamps:
            self._fence(stamp, pointers)

    def _fence(self, stamp: Stamp, pointers: dict[str, Pointer]) -> None:
        name = self._name(stamp.window)
        old = pointers.get(name)
        self._refuse_superseded(old, stamp)
        start = range_text(stamp.window.start)
        if old is None:
            end = range_text(stamp.window.end)
            kept = Pointer(start, end, "", (), 0, stamp.step_id, 0, "", fences=start)
        else:
            texts = filter(None, (start, old.fences))
            kept = replace(old, fences=max(texts, key=lambda text: moment(text, self._zone)))
        fence = replace(kept, fencing_token=stamp.fencing_token)
        if fence != old:
            self._pointers.put(name, fence)
            self._pointers.forget(name, keep=2)

    def _refuse_superseded(self, old: Pointer | None, stamp: Stamp) -> None:
        """AttemptLostError if a newer attempt at this very window has been here."""
        if old is None or old.fencing_token <= stamp.fencing_token:
            return
        if range_text(stamp.window.start) in (old.data_range_start, old.fences):
            raise stamp.superseded(old.fencing_token)

    def _forget(self, pointers: dict[str, Pointer], name: str, window: TimeWindow) -> None:
        """Remove what nobody reads any more, now that the new pointer hides it."""
        if old := pointers.get(name):
            self._pointers.forget(name, keep=2)
            if old.previous:
                remove_folder(self._folder / "data" / old.previous)
        for other, pointer in list(pointers.items()):
            if other != name and (name == ALL or window.contains(pointer.window(self._zone))):
                self._pointers.forget(other, keep=0)
                del pointers[other]

    def _refuse_larger(self, pointers: dict[str, Pointer], name: str, window: TimeWindow) -> None:
        """A window cannot be cut out of a larger one, whose files hold other rows, too."""
        for other, pointer in pointers.items():
            held = pointer.window(self._zone)
            apart = name == ALL or not held.overlaps(window) or window.contains(held)
            if other != name and pointer.folder and (other == ALL or not apart):
                raise TerminalStepError(
                    f"{self._table}: {window} is part of {held if other != ALL else 'a table'} "
                    f"that was published as a whole; move {self._pointers.place(other)} away "
                    "to publish smaller windows"
                )

    def discard(self, staged: StagedRows) -> None:
        """Remove the staging folder, unless a pointer names it."""
        self.discard_windows([staged])

    def discard_windows(self, staged: Sequence[StagedRows]) -> None:
        """Remove the staging folders of several windows, unless a pointer names them."""
        named = self._pointers.folders()
        for rows in staged:
            if Path(rows.location).name not in named:
                remove_folder(rows.location)

    def read(self, window: TimeWindow | None) -> "DataFrame":
        """The files that the pointers of these windows name."""
        pointers = self._published()
        if not pointers:
            raise NotPublishedError(f"{self._table} was never published, so it cannot be read")
        schema = merged([pointer.schema() for pointer in _distinct(pointers)], self._table)
        files = [
            location(self._folder / "data" / pointer.folder / name)
            for pointer in visible(pointers, self._zone)
            if window is None or window.contains(pointer.window(self._zone))
            for name in pointer.files
        ]
        return self._read_files(files, schema)

    def _published(self) -> dict[str, Pointer]:
        return {name: p for name, p in self._pointers.current().items() if p.folder}

    def _read_files(self, files: list[str] | tuple[str, ...], schema: "StructType") -> "DataFrame":
        return read_files(self._place.spark, self._target.type, files, schema, self._read_options)

    def _known_schema(self) -> "StructType | None":
        pointers = self._published()
        if not pointers:
            return None
        return merged([pointer.schema() for pointer in _distinct(pointers)], self._table)

    def _name(self, window: TimeWindow) -> str:
        return ALL if self._target.mode == "overwrite" else range_text(window.start)


def visible(pointers: Mapping[str, Pointer], zone: ZoneInfo) -> list[Pointer]:
    """What readers see: without those inside a larger window, which replaced them a moment ago."""
    if whole := pointers.get(ALL):
        return [whole]
    windows = {name: pointer.window(zone) for name, pointer in pointers.items()}
    ordered = sorted(windows.values(), key=lambda held: (held.start, -held.end.timestamp()))
    shown: list[TimeWindow] = []
    for held in ordered:
        if not shown or not shown[-1].contains(held):
            shown.append(held)
    kept = set(shown)
    return [pointers[name] for name, held in windows.items() if held in kept]


def files_folder(project: Project, table: str, target: FileTarget) -> Path:
    """The folder of a target; TerminalStepError for a URL of another file system."""
    default = project.warehouse.joinpath(*table.split("."))
    return local_path(project.path(target.path) if target.path else str(default), "target.path")


def _pointer_to(staged: StagedRows, old: Pointer | None) -> Pointer:
    stamp = staged.stamp
    return Pointer(
        range_text(stamp.window.start),
        range_text(stamp.window.end),
        Path(staged.location).name,
        tuple(path.rsplit("/", 1)[-1] for path in staged.files),
        stamp.job_id,
        stamp.step_id,
        staged.rows,
        staged.schema.json(),
        (old.folder or None) if old else None,
        stamp.fencing_token,
        old.fences if old else None,
    )


def _distinct(pointers: dict[str, Pointer]) -> list[Pointer]:
    """One pointer for each schema, so that a thousand windows need no thousand comparisons."""
    return list({pointer.columns: pointer for pointer in pointers.values()}.values())


def _orc_rows(path: Path) -> int:
    from pyarrow.orc import ORCFile

    return int(ORCFile(str(path)).nrows)


FOOTERS = {"parquet": parquet_rows, "orc": _orc_rows}
"""Formats whose files say how many rows they hold."""
