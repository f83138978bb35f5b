"""Iceberg tables: Spark writes Parquet files, and one PyIceberg commit adds them to the table.

A commit that is killed leaves either the old rows or the new ones, never both.
"""

import random
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from logdriven_dagster.config.models.tables import MissingColumns
from logdriven_dagster.config.models.types.iceberg import IcebergTarget
from logdriven_dagster.config.project import Project
from logdriven_dagster.engine.databases.creation import create
from logdriven_dagster.engine.iceberg.added_files import (
    data_location,
    refuse_distant_times,
    refuse_nulls,
    refuse_unwritable,
)
from logdriven_dagster.engine.iceberg.files import (
    all_within,
    build_window_filter,
    is_partitioned_by,
)
from logdriven_dagster.engine.iceberg.names import identifier, name_of_table
from logdriven_dagster.engine.iceberg.partitions import with_partition
from logdriven_dagster.engine.iceberg.rows import rows_of
from logdriven_dagster.engine.iceberg.scan import matching_files, plan
from logdriven_dagster.engine.iceberg.schema import (
    iceberg_schema,
    refuse_unreadable_types,
    spark_schema,
)
from logdriven_dagster.engine.queries.declared_columns import add_comments
from logdriven_dagster.engine.queries.instants import lies_within
from logdriven_dagster.engine.queries.quoting import quote_name
from logdriven_dagster.engine.queries.schemas import (
    WINDOW_START,
    conform,
    refuse_wider_columns,
    select_given_columns,
    window_column,
)
from logdriven_dagster.engine.spark.settings import option_texts
from logdriven_dagster.engine.storage.locations import Folder, folder_at
from logdriven_dagster.engine.targets.iceberg.catalog import (
    evolve,
    forget_old_snapshots,
    load_existing,
    properties_of_new_tables,
    total_rows,
)
from logdriven_dagster.engine.targets.iceberg.commits import commit_files, get_commit_errors
from logdriven_dagster.engine.targets.iceberg.first_contact import find_replaced_files
from logdriven_dagster.engine.targets.iceberg.history import (
    get_merge_counts,
    identities,
    is_out_of_date,
    publication,
    refuse_superseded,
    rewind_table,
    snapshots_of,
)
from logdriven_dagster.engine.targets.iceberg.keyed_files import IcebergFiles
from logdriven_dagster.engine.targets.iceberg.rewriting import without
from logdriven_dagster.engine.targets.staged_files import are_whole, stage_files, staged_frame
from logdriven_dagster.engine.targets.store import StagedRows, StoreContext
from logdriven_dagster.engine.targets.versions import (
    add_version_columns,
    merge_rows,
    refuse_bad_keys,
)
from logdriven_dagster.errors import NotPublishedError, TransientStepError
from logdriven_dagster.model.runs import Merged, Published, WindowRun
from logdriven_dagster.model.windows import TimeWindow

if TYPE_CHECKING:
    from pyiceberg.manifest import DataFile
    from pyiceberg.table import Table, Transaction
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

_COMMIT_TRIES = 8
TAKEN = "_renamed"
"""The file that marks the folder of a renamed table, which does not have its name."""


@dataclass(frozen=True, slots=True)
class FileChange:
    """Changes of one commit to a table's files."""

    removed: "list[DataFile]"
    added: tuple[str, ...]
    merged: Merged | None = None
    """Counts of an upsert; None for other modes."""


def table_folder(project: Project, name: str) -> Folder:
    """Return the folder that a table has by its name."""
    return folder_at("/".join([project.warehouse, *identifier(name)]), project.storage)


def choose_table_folder(project: Project, name: str) -> Folder:
    """Return the folder of a table of this name: the first one that no renamed table has.

    A renamed table keeps its folder, so a new table of its earlier name gets a numbered one.
    """
    first = folder = table_folder(project, name)
    number = 1
    while folder.storage.exists(f"{folder.location}/{TAKEN}"):
        number += 1
        folder = Folder(first.storage, f"{first.location}.{number}")
    return folder


class IcebergTable:
    """A target of type `iceberg`; implements `Store`."""

    def __init__(self, context: StoreContext, table: str, target: IcebergTarget) -> None:
        self._context, self._table, self._target = context, table, target
        self._name = target.name or table
        self._identifier = identifier(self._name)
        self._folder = table_folder(context.project, self._name)

    @property
    def takes_stretches(self) -> bool:
        return self._target.write_mode.supports_batching

    def _data(self, table: "Table | None") -> Folder:
        """Return the folder for new files; in another program's table, its data folder."""
        if table is None:
            return choose_table_folder(self._context.project, self._name).get_subfolder("data")
        return folder_at(data_location(table), self._context.project.storage)

    @property
    def _catalog(self) -> Any:
        return self._context.catalog()

    def stage(self, frame: "DataFrame", runs: Sequence[WindowRun]) -> tuple[StagedRows, ...]:
        """Write Parquet files below the table's folder that no snapshot names yet."""
        if (known := self._existing()) is not None:
            refuse_unreadable_types(known.schema(), name_of_table(known))
            refuse_unwritable(known)
            find_replaced_files(known, self._target)
        frame = add_version_columns(frame, self._target, runs[0], self._name)
        schema = spark_schema(known.schema()) if known else None
        missing = self._context.missing_columns(runs[0].table)
        upserts = self._target.write_mode.keeps_lacking_columns
        fields: MissingColumns | None = "refuse" if upserts else None  # an upsert would empty them
        fitting = conform(frame, schema, self._name, missing=missing, missing_fields=fields)
        if self._context.is_frozen(runs[0].table, self._target):
            refuse_wider_columns(frame, fitting, self._name)
        frame = select_given_columns(fitting, frame) if upserts else fitting
        iceberg_schema(frame.schema)  # before any work: every column must have a type there
        options, check = option_texts(self._target.options), partial(self._check, known)
        frame = with_partition(frame, known)
        return stage_files(frame, self._data(known), runs, options=options, check=check)

    def _check(self, known: "Table | None", staged: Sequence[StagedRows]) -> None:
        paths = [path for rows in staged for path in rows.files]
        if known is not None:
            refuse_nulls(known, paths)
        else:  # do not create a table that the first commit would leave empty
            for path in paths:
                with self._folder.storage.open(path) as file:
                    refuse_distant_times(file)
        if self._target.write_mode.merges_by_key:
            (rows,) = staged
            refuse_bad_keys(self._context, self._target, rows, self._name, self._folder)

    def staged_frame(self, staged: Sequence[StagedRows]) -> "DataFrame":
        """Return the staged rows, read with their exact schema."""
        return staged_frame(self._context.spark, staged)

    def holds(self, staged: StagedRows) -> bool:
        """Return True if all staged files exist and are complete."""
        return are_whole(staged, self._data(self._existing()))

    def publish(
        self, staged: Sequence[StagedRows], verify: Callable[[], None]
    ) -> tuple[Published, ...]:
        """Commit all windows at once; a snapshot that names a staging folder proves it.

        The commit is a compare-and-swap on the snapshot that was current when `verify` was called.
        """
        step, runs = staged[0].run.step_id, [rows.run for rows in staged]
        for table in self._tries(staged[0].schema):
            refuse_superseded(table, runs)
            if self._keeps_newest_state and is_out_of_date(table, runs[0]):
                return (Published(step, self._name, rows=0, table_rows=total_rows(table)),)
            if left := self._list_unpublished(table, staged):
                made = self._build_change(table, left)
                verify()
                if not self._commit(table, left, made):
                    continue
            held = total_rows(table)
            done = zip(staged, snapshots_of(table, staged), strict=True)
            upserted = self._target.write_mode.merges_by_key
            return tuple(
                Published(
                    step,
                    self._name,
                    snapshot_id=by,
                    rows=None if upserted else rows.rows,
                    merged=get_merge_counts(table, by),
                    table_rows=held,
                )
                for rows, by in done
            )
        raise TransientStepError(f"{self._name}: {_COMMIT_TRIES} commits lost to other writers")

    def _list_unpublished(self, table: "Table", staged: Sequence[StagedRows]) -> list[StagedRows]:
        done = snapshots_of(table, staged)
        return [rows for rows, snapshot in zip(staged, done, strict=True) if snapshot is None]

    @property
    def _keeps_newest_state(self) -> bool:
        return self._context.keeps_newest_state(self._table, self._target)

    def _build_change(self, table: "Table", staged: Sequence[StagedRows]) -> FileChange:
        if self._target.write_mode.merges_by_key:
            return self._merge(table, staged[0])
        if others := find_replaced_files(table, self._target):
            return FileChange(others, tuple(path for rows in staged for path in rows.files))
        return self._replacing(table, staged)

    def fence(self, runs: Sequence[WindowRun]) -> None:
        """Commit a snapshot that changes no row, so that any commit that began earlier fails."""
        from logdriven_dagster.engine.targets.iceberg.transactions import CachedTransaction

        for table in self._tries():
            refuse_superseded(table, runs)
            try:
                with CachedTransaction(table) as transaction:
                    update = transaction.update_snapshot(snapshot_properties=identities(runs))
                    with update.fast_append():
                        pass
            except get_commit_errors():
                continue
            forget_old_snapshots(table)
            return
        if self._existing() is not None:
            raise TransientStepError(f"{self._name}: {_COMMIT_TRIES} commits lost to other writers")

    def _tries(self, schema: "StructType | None" = None) -> "Iterator[Table]":
        """Yield the current version of the table for each try, with back-off between tries.

        A missing table is created with the schema; without a schema, nothing is yielded.
        """
        for attempt in range(_COMMIT_TRIES):
            if attempt:
                pause = random.uniform(0.01, 0.05)  # noqa: S311 - spreads the retries
                time.sleep(pause * 2**attempt)
            table = self._existing()
            if table is None and schema is None:
                return
            if table is None and schema is not None:
                self._create(schema)
                table = self._existing()
            if table is not None:
                refuse_unwritable(table)
                yield table

    def _commit(self, table: "Table", staged: Sequence[StagedRows], change: FileChange) -> bool:
        """Commit by compare-and-swap; False if a faster writer may have outdated the change."""
        properties = publication(staged, change.merged)

        def prepare(transaction: "Transaction") -> None:
            evolve(transaction, self._add_comments(staged[0].schema))

        if not commit_files(table, change.removed, change.added, properties, prepare):
            return False
        forget_old_snapshots(table)
        return True

    def discard(self, staged: Sequence[StagedRows]) -> None:
        """Remove the staging folders, except those whose files a snapshot names."""
        table = self._existing()
        named: set[str] = set()
        if table is not None:
            staged = self._list_unpublished(table, staged)
            named = {file.file_path for file in matching_files(table)}
        for rows in staged:
            if not named & set(rows.files):
                self._folder.storage.remove(rows.location)

    def read(self, window: TimeWindow | None) -> "DataFrame":
        """Read the current snapshot; for a `window`, open only the files that may hold its rows."""
        return self._read(self._find_published(), window)

    def read_snapshot(self, snapshot: str, window: TimeWindow | None) -> "DataFrame":
        """Read a snapshot of the table with the columns that the table had then."""
        return self._read(rewind_table(self._find_published(), snapshot), window)

    def _find_published(self) -> "Table":
        table = self._existing()
        if table is None:
            raise NotPublishedError(f"{self._name} was never published, so it cannot be read")
        return table

    def _read(self, table: "Table", window: TimeWindow | None) -> "DataFrame":
        spark, column = self._context.spark, self._window_column
        if window is None:
            return rows_of(spark, table, plan(table))
        tasks = plan(table, build_window_filter(table.schema(), column, window))
        frame = rows_of(spark, table, tasks)
        if is_partitioned_by(table, column, [task.file for task in tasks]):
            return frame  # each file lies in one window as a whole
        return frame.where(lies_within(quote_name(column), window))

    @property
    def _window_column(self) -> str:
        """The column that identifies the window of a row."""
        return window_column(self._target)

    def _replacing(self, table: "Table", staged: Sequence[StagedRows]) -> FileChange:
        """Return the files to remove and to add, by mode; the windows adjoin each other."""
        added = tuple(path for rows in staged for path in rows.files)
        mode = self._target.write_mode
        if mode.replaces_whole_table:
            return FileChange(matching_files(table), added)
        column, schema = self._window_column, table.schema()
        if column == WINDOW_START and WINDOW_START not in schema.column_names:
            return FileChange([], added)  # no window wrote any of the rows, which stay
        ranges = [mode.range_to_replace(rows.run.window) for rows in staged]
        condition = build_window_filter(schema, column, ranges[0].up_to_end_of(ranges[-1]))
        tasks = plan(table, condition)
        files = [task.file for task in tasks]
        if is_partitioned_by(table, column, files) or all_within(table, condition, files):
            return FileChange(files, added)
        # A file of a larger window, of another mode or of another program keeps its other rows.
        replaced = " OR ".join(f"({lies_within(quote_name(column), each)})" for each in ranges)
        cut, kept = without(
            self._context.spark, table, tasks, replaced, staged[0], data=self._data(table)
        )
        return FileChange(cut, (*added, *kept))

    def _merge(self, table: "Table", staged: StagedRows) -> FileChange:
        files = IcebergFiles(table)
        data = self._data(table)
        removed, added, merged = merge_rows(self._context, files, self._target, staged, data)
        return FileChange(files.find_files(removed), added, merged=merged)

    def _existing(self) -> "Table | None":
        return load_existing(self._catalog, self._identifier)

    def _create(self, schema: "StructType") -> None:
        from pyiceberg.exceptions import TableAlreadyExistsError

        for length in range(1, len(self._identifier)):
            namespace = self._identifier[:length]
            create(partial(self._catalog.create_namespace_if_not_exists, namespace))
        # Another process may create it, or the answer may be lost: the caller loads it afterwards.
        with suppress(TableAlreadyExistsError, *get_commit_errors()):
            self._catalog.create_table(
                self._identifier,
                iceberg_schema(self._add_comments(schema)),
                location=choose_table_folder(self._context.project, self._name).location,
                partition_spec=self._layout(schema),
                properties=properties_of_new_tables(self._catalog),
            )

    def _add_comments(self, schema: "StructType") -> "StructType":
        return add_comments(schema, self._context.project, self._table, self._target)

    def _layout(self, schema: "StructType") -> Any:
        """Partition by the window that wrote a row, so that windows never share a file."""
        from pyiceberg.partitioning import (
            UNPARTITIONED_PARTITION_SPEC,
            PartitionField,
            PartitionSpec,
        )
        from pyiceberg.transforms import IdentityTransform

        if self._target.write_mode.merges_by_key or self._window_column != WINDOW_START:
            return UNPARTITIONED_PARTITION_SPEC
        source = iceberg_schema(schema).find_field(WINDOW_START).field_id
        return PartitionSpec(PartitionField(source, 1000, IdentityTransform(), WINDOW_START))
