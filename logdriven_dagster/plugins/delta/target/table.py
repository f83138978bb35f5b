"""Delta tables: Spark writes Parquet files, and one delta-rs commit adds them to the table.

A commit that is killed leaves either the old rows or the new ones, never both.
"""

import random
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from logdriven_dagster.config.models.tables import MissingColumns
from logdriven_dagster.config.project import Project
from logdriven_dagster.engine.queries.declared_columns import add_comments
from logdriven_dagster.engine.queries.schemas import (
    conform,
    refuse_wider_columns,
    select_given_columns,
    window_column,
)
from logdriven_dagster.engine.spark.settings import option_texts
from logdriven_dagster.engine.targets.folders import target_folder
from logdriven_dagster.engine.targets.staged_files import are_whole, stage_files, staged_frame
from logdriven_dagster.engine.targets.store import StagedRows, StoreContext
from logdriven_dagster.engine.targets.versions import (
    add_version_columns,
    merge_rows,
    refuse_bad_keys,
)
from logdriven_dagster.errors import NotPublishedError, TerminalStepError, TransientStepError
from logdriven_dagster.model.runs import Merged, Published, WindowRun
from logdriven_dagster.model.windows import TimeWindow
from logdriven_dagster.plugins.delta.format.features import refuse_unwritable
from logdriven_dagster.plugins.delta.format.frames import frame_of
from logdriven_dagster.plugins.delta.format.pruning import Selection
from logdriven_dagster.plugins.delta.format.schema import delta_fields
from logdriven_dagster.plugins.delta.format.tables import DataFile, Snapshot, open_table
from logdriven_dagster.plugins.delta.models import DeltaTarget
from logdriven_dagster.plugins.delta.target.commits import (
    commit_files,
    create_table,
    evolve,
    new_columns,
)
from logdriven_dagster.plugins.delta.target.first_contact import find_replaced_files
from logdriven_dagster.plugins.delta.target.history import (
    commit_of,
    describe_commit,
    fences,
    get_merge_counts,
    is_out_of_date,
    list_unpublished,
    publications,
    refuse_superseded,
)
from logdriven_dagster.plugins.delta.target.keyed_files import DeltaFiles
from logdriven_dagster.plugins.delta.target.mapped_files import (
    refuse_new_columns,
    write_mapped_files,
)
from logdriven_dagster.plugins.delta.target.requirements import (
    refuse_forbidden_removal,
    refuse_invalid_rows,
)
from logdriven_dagster.plugins.delta.target.rewriting import rows_but
from logdriven_dagster.plugins.delta.target.statistics import Statistics, column_names, statistics

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

_COMMIT_TRIES = 8


@dataclass(frozen=True, slots=True)
class FileChange:
    """Changes of one commit to a table's files."""

    removed: Sequence[DataFile]
    added: tuple[str, ...]
    merged: Merged | None = None
    """Counts of an upsert; None for other modes."""
    rewrites: bool = False
    """True if rows of removed files are in added files, too."""


def open_target(project: Project, table: str, target: DeltaTarget) -> Snapshot | None:
    """Return the current snapshot of a target's table; None if there is no table."""
    return open_table(target_folder(project, table, target).location, project.storage)


class DeltaTable:
    """A target of type `delta`; implements `Store`."""

    def __init__(self, context: StoreContext, table: str, target: DeltaTarget) -> None:
        self._context, self._table, self._target = context, table, target
        self._folder = target_folder(context.project, table, target)
        self._data = self._folder.get_subfolder("data")

    @property
    def takes_stretches(self) -> bool:
        return self._target.write_mode.supports_batching

    def stage(self, frame: "DataFrame", runs: Sequence[WindowRun]) -> tuple[StagedRows, ...]:
        """Write Parquet files below the table's folder that no commit names yet."""
        known = self._now()
        if known is not None:
            refuse_unwritable(known)
            find_replaced_files(known, self._target)
        frame = add_version_columns(frame, self._target, runs[0], self._table)
        missing = self._context.missing_columns(runs[0].table)
        schema = known.schema if known else None
        upserts = self._target.write_mode.keeps_lacking_columns
        fields: MissingColumns | None = "refuse" if upserts else None  # an upsert would empty them
        fitting = conform(frame, schema, self._table, missing=missing, missing_fields=fields)
        if self._context.is_frozen(runs[0].table, self._target):
            refuse_wider_columns(frame, fitting, self._table)
        frame = select_given_columns(fitting, frame) if upserts else fitting
        # Before any work: every column must have a type in Delta, and keep it.
        if known is None:
            delta_fields(frame.schema)
        else:
            refuse_new_columns(known, frame.schema)
        options, check = option_texts(self._target.options), self._refuse_duplicates
        return stage_files(frame, self._data, runs, options=options, check=check)

    def _refuse_duplicates(self, staged: Sequence[StagedRows]) -> None:
        if self._target.write_mode.merges_by_key:
            (rows,) = staged
            refuse_bad_keys(self._context, self._target, rows, self._table, self._data)

    def staged_frame(self, staged: Sequence[StagedRows]) -> "DataFrame":
        """Return the staged rows, read with their exact schema."""
        return staged_frame(self._context.spark, staged)

    def holds(self, staged: StagedRows) -> bool:
        """Return True if all staged files exist and are complete."""
        return are_whole(staged, self._data)

    def publish(
        self, staged: Sequence[StagedRows], verify: Callable[[], None]
    ) -> tuple[Published, ...]:
        """Commit all windows at once; transactions in the log prove the publication.

        The commit is a compare-and-swap on the version that was current when `verify` was called.
        """
        runs = [rows.run for rows in staged]
        for snapshot in self._tries(staged[0].schema):
            refuse_superseded(snapshot, runs)
            if self._keeps_newest_state and is_out_of_date(snapshot, runs[0]):
                outdated = self._build_published(staged[0], snapshot, snapshot.rows)
                return (replace(outdated, rows=0),)
            left = list_unpublished(snapshot, staged)
            if not left:
                return tuple(self._find_published(snapshot, rows, snapshot.rows) for rows in staged)
            refuse_new_columns(snapshot, staged[0].schema)
            if new_columns(snapshot, staged[0].schema):
                verify()
                schema = staged[0].schema
                evolve(
                    snapshot,
                    add_comments(schema, self._context.project, self._table, self._target),
                )
                continue
            change = self._build_change(snapshot, left)
            refuse_forbidden_removal(snapshot, change.removed, rewrites=change.rewrites)
            refuse_invalid_rows(self._context.spark, snapshot, change.added)
            stored = write_mapped_files(
                self._context.spark, snapshot, change.added, run=runs[0], data=self._data
            )
            change = replace(change, added=stored)
            added = {path: statistics(path, self._data.storage) for path in change.added}
            said, tokens = describe_commit(left, change.merged), publications(snapshot, left)
            verify()
            if commit_files(snapshot, change.removed, added, tokens, said):
                held = _rows_after(snapshot, change, added)
                return tuple(
                    self._build_published(rows, snapshot, held, change.merged, snapshot.version + 1)
                    if rows in left
                    else self._find_published(snapshot, rows, held)
                    for rows in staged
                )
        raise self._build_lost_error()

    def _find_published(self, snapshot: Snapshot, rows: StagedRows, held: int | None) -> Published:
        """Describe rows that an earlier commit has published."""
        said = commit_of(snapshot, self._folder, rows)
        return self._build_published(
            rows, snapshot, held, get_merge_counts(said), said.get("version")
        )

    def _build_published(
        self,
        staged: StagedRows,
        snapshot: Snapshot,
        held: int | None,
        merged: Merged | None = None,
        version: int | None = None,
    ) -> Published:
        return Published(
            staged.run.step_id,
            snapshot.name,
            snapshot_id=None if version is None else str(version),
            rows=None if self._target.write_mode.merges_by_key else staged.rows,
            merged=merged,
            table_rows=held,
        )

    def fence(self, runs: Sequence[WindowRun]) -> None:
        """Commit transactions that change no row, so that any commit that began earlier fails."""
        for snapshot in self._tries():
            refuse_superseded(snapshot, runs)
            if commit_files(snapshot, (), {}, fences(snapshot, runs), {}):
                return
        if self._now() is not None:
            raise self._build_lost_error()

    def _tries(self, schema: "StructType | None" = None) -> Iterator[Snapshot]:
        """Yield the current snapshot for each try, with back-off between tries.

        A missing table is created with the schema; without a schema, nothing is yielded.
        """
        project = self._context.project
        for attempt in range(_COMMIT_TRIES):
            if attempt > 1:
                pause = random.uniform(0.01, 0.05)  # noqa: S311 - spreads the retries
                time.sleep(pause * 2**attempt)
            snapshot = self._now()
            if snapshot is None and schema is not None:
                described = add_comments(schema, project, self._table, self._target)
                create_table(self._folder.location, project.storage, described)
                snapshot = self._now()
            if snapshot is None:
                return
            refuse_unwritable(snapshot)
            yield snapshot

    def _now(self) -> Snapshot | None:
        return open_target(self._context.project, self._table, self._target)

    def _build_lost_error(self) -> TransientStepError:
        return TransientStepError(f"{self._table}: {_COMMIT_TRIES} commits lost to other writers")

    def discard(self, staged: Sequence[StagedRows]) -> None:
        """Remove the staging folders, unless the table names their files."""
        snapshot = self._now()
        named: set[str] = set()
        if snapshot is not None:
            staged = list_unpublished(snapshot, staged)
            named = {file.location for file in snapshot.files}
        for rows in staged:
            if not named & set(rows.files):
                self._data.storage.remove(rows.location)

    def read(self, window: TimeWindow | None) -> "DataFrame":
        """Read the current version; for a `window`, open only the files that may hold its rows."""
        return self._read(self._now(), window)

    def read_snapshot(self, snapshot: str, window: TimeWindow | None) -> "DataFrame":
        """Read a version of the table; its files must not have been removed."""
        project, location = self._context.project, self._folder.location
        then = open_table(location, project.storage, int(snapshot))
        present = self._now()
        if then is not None and present is not None:
            current = {file.location for file in present.files}
            for file in then.files:
                if file.location not in current and not self._data.storage.exists(file.location):
                    raise TerminalStepError(
                        f"{self._table}: version {snapshot} cannot be read, because its file "
                        f"{file.location} was removed; choose a newer version"
                    )
        return self._read(then, window)

    def _read(self, snapshot: Snapshot | None, window: TimeWindow | None) -> "DataFrame":
        if snapshot is None:
            raise NotPublishedError(f"{self._table} was never published, so it cannot be read")
        refuse_unwritable(snapshot)
        if window is None:
            return self._frame(snapshot, snapshot.files)
        column = snapshot.column_name(window_column(self._target))
        if column is None:
            return self._frame(snapshot, ())
        wanted = Selection(snapshot, column, [window])
        files = wanted.possible()
        frame = self._frame(snapshot, files)
        return frame if wanted.holds_all_of(files) else frame.where(wanted.condition)

    def _frame(self, snapshot: Snapshot, files: Sequence[DataFile]) -> "DataFrame":
        return frame_of(self._context.spark, snapshot, files)

    @property
    def _keeps_newest_state(self) -> bool:
        return self._context.keeps_newest_state(self._table, self._target)

    def _build_change(self, snapshot: Snapshot, staged: Sequence[StagedRows]) -> FileChange:
        """Return the files to remove and to add, by mode; the windows adjoin each other."""
        added = tuple(path for rows in staged for path in rows.files)
        if self._target.write_mode.merges_by_key:
            return self._merge(snapshot, staged[0])
        if self._target.write_mode.replaces_whole_table:
            return FileChange(snapshot.files, added)
        if others := find_replaced_files(snapshot, self._target):
            return FileChange(others, added)
        replaced = self._select_replaced(snapshot, [rows.run.window for rows in staged])
        files = replaced.possible()
        unknown = replaced.unknown(files)
        empty = {file for file in unknown if not self._has(snapshot, file, replaced.column)}
        files = [file for file in files if file not in empty]
        if replaced.holds_all_of(files):
            return FileChange(files, added)
        # A file of a larger window, of another mode or of another program keeps its other rows.
        refuse_forbidden_removal(snapshot, files, rewrites=True)
        kept = rows_but(
            self._context.spark,
            snapshot,
            files,
            replaced.condition,
            run=staged[0].run,
            data=self._data,
        )
        return FileChange(files, (*added, *kept), rewrites=True)

    def _has(self, snapshot: Snapshot, file: DataFile, column: str) -> bool:
        """Return True if a file without statistics may have this column at all."""
        if snapshot.column_mapping != "none":
            return True
        names = column_names(file.location, self._data.storage)
        return column.lower() in map(str.lower, names)

    def _select_replaced(self, snapshot: Snapshot, windows: Sequence[TimeWindow]) -> Selection:
        """Select the rows that these adjoining windows replace."""
        column = snapshot.column_name(window_column(self._target))
        assert column is not None  # the table has gained the columns of the staged rows
        return Selection(snapshot, column, [windows[0].up_to_end_of(windows[-1])])

    def _merge(self, snapshot: Snapshot, staged: StagedRows) -> FileChange:
        files = DeltaFiles(snapshot, self._data.storage)
        removed, added, merged = merge_rows(self._context, files, self._target, staged, self._data)
        return FileChange(files.find_files(removed), added, merged, rewrites=bool(removed))


def _rows_after(
    snapshot: Snapshot, change: FileChange, added: Mapping[str, Statistics]
) -> int | None:
    """Return the row count of the table after a commit; None if a file has no row count."""
    counts = [file.rows for file in change.removed]
    if snapshot.rows is None or None in counts:
        return None
    return snapshot.rows - sum(filter(None, counts)) + sum(each.rows for each in added.values())
