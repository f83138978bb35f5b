"""Plain files, published window by window.

Below the target's folder lie `data/<job_id>-<step>/` and, for each published window, a pointer that
names the folder, its files, columns and rows; `overwrite` has a single one. A reader lists the
pointers, ignores those inside a larger window, and reads the files that the others name: old rows
or new ones, never both. A replaced folder stays until the window is replaced again, for readers
that hold its pointer.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo

from logdriven_dagster.config.locations import as_path
from logdriven_dagster.config.models.types.files import FileTarget
from logdriven_dagster.engine.queries.schemas import conform, merge_schemas, refuse_wider_columns
from logdriven_dagster.engine.sources.files.records import NOTHING
from logdriven_dagster.engine.spark.settings import option_texts
from logdriven_dagster.engine.storage.locations import name_of
from logdriven_dagster.engine.storage.spark_files import read_files
from logdriven_dagster.engine.storage.staging import staging_name
from logdriven_dagster.engine.targets.files.limits import storable
from logdriven_dagster.engine.targets.files.pointers import (
    ALL,
    Pointer,
    Pointers,
    epoch_seconds,
    find_foreign_file,
    total,
)
from logdriven_dagster.engine.targets.folders import target_folder
from logdriven_dagster.engine.targets.staged_files import (
    are_whole,
    stage_files,
    staged_frame,
)
from logdriven_dagster.engine.targets.store import StagedRows, StoreContext, is_newer
from logdriven_dagster.errors import NotPublishedError, TerminalStepError
from logdriven_dagster.model.runs import Published, WindowRun
from logdriven_dagster.model.windows import TimeWindow

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

_TIMES = {
    # By default Spark truncates times to milliseconds, and offsets to minutes.
    "timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXXXX",
    "timestampNTZFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSS",
}
_CSV = {
    **_TIMES,
    "header": "true",
    # By default Spark trims text, escapes quotes with backslashes, and reads a line break inside a
    # value as a new row.
    "ignoreLeadingWhiteSpace": "false",
    "ignoreTrailingWhiteSpace": "false",
    "escape": '"',
    "multiLine": "true",
}
_JSON = {
    **_TIMES,
    # Otherwise other readers do not see a column whose values are all NULL.
    "ignoreNullFields": "false",
}
_WRITTEN = {"csv": _CSV, "json": _JSON}
_STRICT = {
    "mode": "FAILFAST",
    # Files of earlier versions have milliseconds.
    "timestampFormat": "yyyy-MM-dd'T'HH:mm:ss[.SSSSSS][.SSS]XXXXX",
    "timestampNTZFormat": "yyyy-MM-dd'T'HH:mm:ss[.SSSSSS][.SSS]",
}
_READ = {"csv": {**_CSV, **_STRICT, "nullValue": NOTHING}, "json": _STRICT}
"""NULL is an empty field in CSV, and an empty text is `""`."""


class WindowFiles:
    """A target of type `parquet`, `orc`, `csv` or `json`; implements `Store`."""

    def __init__(self, context: StoreContext, table: str, target: FileTarget) -> None:
        self._context, self._table, self._target = context, table, target
        self._folder = target_folder(context.project, table, target)
        self._data = self._folder.get_subfolder("data")
        self._zone = context.project.zone
        self._pointers = Pointers(self._folder, self._zone)
        given = option_texts(target.options)
        self._options = {**_WRITTEN.get(target.type, {}), **given}
        self._read_options = {**_READ.get(target.type, {}), **given}

    @property
    def _place(self) -> str:
        return as_path(self._folder.location)

    @property
    def takes_stretches(self) -> bool:
        return self._target.write_mode.supports_batching

    def stage(self, frame: "DataFrame", runs: Sequence[WindowRun]) -> tuple[StagedRows, ...]:
        """Write files into folders that no pointer names yet."""
        self._refuse_others()
        missing = self._context.missing_columns(runs[0].table)
        fitting = conform(frame, self._read_known_schema(), self._table, missing=missing)
        if self._context.is_frozen(runs[0].table, self._target):
            refuse_wider_columns(frame, fitting, self._table)
        frame = storable(fitting, self._target.type)
        form, options = self._target.type, self._options
        return stage_files(frame, self._data, runs, form=form, options=options)

    def _refuse_others(self) -> None:
        """Raise TerminalStepError if the folder held files before the first window."""
        if self._target.existing_rows == "keep":
            return
        if other := find_foreign_file(self._folder):
            raise TerminalStepError(
                f"{self._table}: {self._place} contains {other}, which no window wrote and "
                "which no reader of this table would see. Move it away, set another `path` "
                "in the target, or set `existing_rows: keep` to leave it there"
            )

    def staged_frame(self, staged: Sequence[StagedRows]) -> "DataFrame":
        """Return the staged rows, read with the schema and options that wrote them."""
        return staged_frame(self._context.spark, staged, self._target.type, self._read_options)

    def holds(self, staged: StagedRows) -> bool:
        """Return True if the staged files exist, and those with footers are complete."""
        return are_whole(staged, self._data, self._target.type)

    def publish(
        self, staged: Sequence[StagedRows], verify: Callable[[], None]
    ) -> tuple[Published, ...]:
        """Add the pointers of the windows one by one, the oldest first.

        Of two pointers that are added at the same time, the one with the greater token counts.
        """
        pointers = self._pointers.current()
        return tuple(self._publish(rows, verify, pointers) for rows in staged)

    def _publish(
        self, staged: StagedRows, verify: Callable[[], None], pointers: dict[str, Pointer]
    ) -> Published:
        run, window = staged.run, staged.run.window
        name = self._name(window, pointers)
        done = Published(run.step_id, self._place, None, staged.rows)
        old = pointers.get(name)
        self._refuse_superseded(old, run)
        if old is not None and old.folder == staging_name(staged.location):
            return replace(done, table_rows=total(pointers.values()))
        if name == ALL and old and old.folder and is_newer(old.data_range_start, window):
            return replace(done, rows=0, table_rows=old.rows)
        self._refuse_larger(pointers, name, window)
        verify()
        new = self._pointers.put(name, self._pointer_to(staged, old), old)
        self._forget(pointers, name, window)
        pointers[name] = new
        return replace(done, table_rows=total(pointers.values()))

    def fence(self, runs: Sequence[WindowRun]) -> None:
        """Add copies of the current pointers under the new tokens; older tokens no longer count."""
        pointers = self._pointers.current()
        for run in runs:
            self._fence(run, pointers)

    def _fence(self, run: WindowRun, pointers: dict[str, Pointer]) -> None:
        name = self._name(run.window, pointers)
        old = pointers.get(name)
        self._refuse_superseded(old, run)
        start = run.window.exact_start_text
        if old is None:
            end = run.window.exact_end_text
            kept = Pointer(start, end, "", (), 0, run.step_id, 0, "", fences=start)
        else:
            texts = filter(None, (start, old.fences))
            kept = replace(old, fences=max(texts, key=lambda text: epoch_seconds(text, self._zone)))
        fence = replace(kept, fencing_token=run.fencing_token)
        if fence != old:
            self._pointers.put(name, fence, old)
            self._pointers.forget(name, keep=2)

    def _refuse_superseded(self, old: Pointer | None, run: WindowRun) -> None:
        """Raise AttemptLostError if a newer attempt at this window has added a pointer."""
        if old is None or old.fencing_token <= run.fencing_token:
            return
        texts = filter(None, (old.data_range_start, old.fences))
        if run.window.span[0] in {epoch_seconds(text, self._zone) for text in texts}:
            raise run.build_superseded_error(old.fencing_token)

    def _forget(self, pointers: dict[str, Pointer], name: str, window: TimeWindow) -> None:
        """Remove pointers and folders that the new pointer hides."""
        if old := pointers.get(name):
            self._pointers.forget(name, keep=2)
            if old.previous:
                self._data.get_subfolder(old.previous).remove()
        for other, pointer in list(pointers.items()):
            if other != name and (name == ALL or window.contains(pointer.window(self._zone))):
                self._pointers.forget(other, keep=0)
                del pointers[other]

    def _refuse_larger(self, pointers: dict[str, Pointer], name: str, window: TimeWindow) -> None:
        """Refuse a window inside a larger published one, whose files hold other rows, too."""
        for other, pointer in pointers.items():
            held = pointer.window(self._zone)
            apart = name == ALL or not held.overlaps(window) or window.contains(held)
            if other != name and pointer.folder and (other == ALL or not apart):
                raise TerminalStepError(
                    f"{self._table}: {window} is part of {held if other != ALL else 'a table'} "
                    f"that was published as a whole; move {self._pointers.place(other)} away "
                    "to publish smaller windows"
                )

    def discard(self, staged: Sequence[StagedRows]) -> None:
        """Remove the staging folders, except those that a pointer names."""
        named = self._pointers.folders()
        for rows in staged:
            if staging_name(rows.location) not in named:
                self._data.storage.remove(rows.location)

    def read(self, window: TimeWindow | None) -> "DataFrame":
        """Return the rows of the files that the pointers of these windows name."""
        pointers = self._find_published()
        if not pointers:
            raise NotPublishedError(f"{self._table} was never published, so it cannot be read")
        schema = merge_schemas([pointer.schema() for pointer in _distinct(pointers)], self._table)
        files = [
            f"{self._data.location}/{pointer.folder}/{name}"
            for pointer in visible(pointers, self._zone)
            if window is None or window.contains(pointer.window(self._zone))
            for name in pointer.files
        ]
        return read_files(self._context.spark, self._target.type, files, schema, self._read_options)

    def _find_published(self) -> dict[str, Pointer]:
        return {name: p for name, p in self._pointers.current().items() if p.folder}

    def _read_known_schema(self) -> "StructType | None":
        pointers = self._find_published()
        if not pointers:
            return None
        return merge_schemas([pointer.schema() for pointer in _distinct(pointers)], self._table)

    def _pointer_to(self, staged: StagedRows, old: Pointer | None) -> Pointer:
        run = staged.run
        return Pointer(
            run.window.exact_start_text,
            run.window.exact_end_text,
            staging_name(staged.location),
            tuple(map(name_of, staged.files)),
            run.job_id,
            run.step_id,
            staged.rows,
            staged.schema.json(),
            (old.folder or None) if old else None,
            run.fencing_token,
            self._fences(run.window, old) if old else None,
        )

    def _fences(self, window: TimeWindow, old: Pointer) -> str | None:
        """Return the newest fenced start; one inside the window comes from an earlier grid."""
        texts = filter(None, (old.data_range_start, old.fences))
        newest = max(texts, key=lambda text: epoch_seconds(text, self._zone))
        return newest if epoch_seconds(newest, self._zone) > window.span[0] else old.fences

    def _name(self, window: TimeWindow, pointers: Mapping[str, Pointer]) -> str:
        """Return the name under which the window's pointers are or will be stored.

        It is the window's start as text, unless the project's zone has changed since. In that case
        the window may be stored under the text of the other zone, and its text may name another
        window.
        """
        if self._target.write_mode.replaces_whole_table:
            return ALL
        starts = {
            name: epoch_seconds(pointer.data_range_start, self._zone)
            for name, pointer in pointers.items()
            if name != ALL
        }
        name = window.start_text
        if starts.get(name) == window.span[0]:
            return name
        mine = sorted(other for other, start in starts.items() if start == window.span[0])
        if mine:
            return mine[0]
        return window.exact_start_text if name in starts else name


def visible(pointers: Mapping[str, Pointer], zone: ZoneInfo) -> list[Pointer]:
    """Drop pointers inside a larger window, which has just replaced them."""
    if whole := pointers.get(ALL):
        return [whole]
    windows = {name: pointer.window(zone) for name, pointer in pointers.items()}
    ordered = sorted(windows.values(), key=lambda held: (held.start, -held.span[1]))
    shown: list[TimeWindow] = []
    for held in ordered:
        if not shown or not shown[-1].contains(held):
            shown.append(held)
    kept = set(shown)
    return [pointers[name] for name, held in windows.items() if held in kept]


def _distinct(pointers: dict[str, Pointer]) -> list[Pointer]:
    """Return one pointer for each schema, so that thousands of windows need few comparisons."""
    return list({pointer.columns: pointer for pointer in pointers.values()}.values())
