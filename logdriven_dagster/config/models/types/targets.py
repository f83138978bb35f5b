"""Base class of target types."""

from abc import abstractmethod
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, ClassVar, Literal

from pydantic import Field, field_validator, model_validator
from typing_extensions import Self

from logdriven_dagster.config.models.frozen import Option
from logdriven_dagster.config.models.types.parts import Part
from logdriven_dagster.config.models.types.write_modes import (
    ModeField,
    WriteMode,
    is_registered,
    write_mode,
)

REJECTED = "__rejected"
"""Suffix of the names of targets that receive rejected rows."""
_OF_HISTORY = ("sequence_by", "deleted_when", "snapshot", "track", "valid_from", "valid_to")
"""The fields of targets that only mode history uses."""


class Target(Part):
    """The base of every type of target: the destination of a step's rows."""

    group = "logdriven.targets"

    store: ClassVar[str]
    """Path `package.module:Class` of its `Store`.

    The class is loaded when a window runs, so that checking a project does not start Spark.
    """
    contents: ClassVar[str] = "logdriven_dagster.engine.targets.contents:Contents"
    """Path of the class that reads the content of such targets without Spark."""
    upkeep: ClassVar[str | None] = None
    """Path of the class that expires old versions and compacts files, or None if it has none."""
    creates_files_once: ClassVar[bool] = False
    """True if a commit needs storage that refuses to overwrite a file."""
    takes_registered_modes: ClassVar[bool] = False
    """True if its store applies `WriteMode.replaced_range`, so that packages can add modes."""
    takes_history: ClassVar[bool] = False
    """True if it can keep each version of a row; see `HistoryTarget`."""
    has_only_columns_of_results: ClassVar[bool] = False
    """True if nothing but a result can add a column to it."""

    window_column: str | None = Field(
        None,
        description="the column whose value assigns a row to a window; default: a technical "
        "column `_window_start`",
        examples=["ordered_at"],
    )
    options: dict[str, Option] = Field(
        default_factory=dict,
        description="any option of Spark's writer",
        examples=[{"compression": "zstd"}],
    )

    @field_validator("window_column", mode="before")
    @classmethod
    def _validate_window_column(cls, value: object) -> object:
        if isinstance(value, dict):
            raise ValueError(
                "must be the name of a column of timestamps or dates; compute one in sql, "
                "as in SELECT *, timestamp_millis(ts) AS at FROM source"
            )
        return value

    if TYPE_CHECKING:
        mode: str
        """Literal of the type's write modes: append, overwrite_window, overwrite, upsert,
        history.
        """

    @abstractmethod
    def place(self, table: str) -> str:
        """Return the place that a table writes to; no two tables may have the same place."""

    @abstractmethod
    def uses(self, table: str) -> Iterator[tuple[str, str]]:
        """Yield kind and name of each resource it uses: `connection`, `target` or `topic`."""

    @property
    def source_place(self) -> str | None:
        """The `place` of a source that reads these rows; None if no source can."""
        return None

    @property
    def write_mode(self) -> WriteMode:
        """Capabilities of the write mode."""
        return write_mode(self.mode)

    @property
    def replaces_rows(self) -> bool:
        """True if a window replaces published rows that can be read and counted."""
        return not self.write_mode.merges_by_key

    @property
    def row_key(self) -> tuple[str, ...]:
        """The columns that identify a row of it; empty if they are not known."""
        return ()

    @property
    def added_columns(self) -> Mapping[str, str]:
        """Columns that its rows have in addition to those of a result, with their types."""
        return {}

    @property
    def stretch_obstacle(self) -> str | None:
        """The reason why adjoining windows cannot be written in one pass, or None if they can."""
        return f"targets of type {self.type} write one window at a time"

    def rejected(self, table: str, mode: str) -> "Target | None":
        """Return a target of this type for a table's rejected rows, or None for Parquet."""
        _ = table, mode
        return None


class FolderTarget(Target):
    """A target whose files lie in a folder of their own."""

    has_only_columns_of_results = True

    if TYPE_CHECKING:
        path: str | None
        """A folder or URL; None for `<warehouse>/<layer>/<name>`."""

    def place(self, table: str) -> str:
        return f"files {self.path or table.lower()}"

    def uses(self, table: str) -> Iterator[tuple[str, str]]:
        yield "target", self.path or table

    @property
    def folders(self) -> Mapping[str, str | None]:
        return {"path": self.path}

    @property
    def stretch_obstacle(self) -> str | None:
        return None

    def rejected(self, table: str, mode: str) -> Self:
        _ = table
        path = f"{self.path}{REJECTED}" if self.path else None
        return self.model_copy(update={"mode": mode, "window_column": None, "path": path})


class TableTarget(Target):
    """A table that other programs may have filled before the first window."""

    mode: ModeField = Field(
        "overwrite_window",
        description="the write mode: append adds rows; overwrite_window replaces the rows of "
        "the window; overwrite replaces all rows; upsert updates rows with the "
        "same key and adds the others; history keeps each version of a row (SCD type 2). A "
        "rerun of a window gives the same rows in every mode",
    )
    existing_rows: Literal["refuse", "keep", "replace"] = Field(
        "refuse",
        description="for existing rows without `_window_start`, which other programs wrote: "
        "refuse the first window; keep them in addition to the loaded rows; or let "
        "the first window replace them all",
    )
    key: tuple[str, ...] = Field(
        (),
        description="modes upsert and history: the columns that identify a row",
        examples=[["id"]],
    )

    @property
    def row_key(self) -> tuple[str, ...]:
        return self.key

    @model_validator(mode="after")
    def _check_mode(self) -> Self:
        if is_registered(self.mode) and not self.takes_registered_modes:
            raise ValueError(f"mode {self.mode} is not available in targets of type {self.type}")
        if self.write_mode.keeps_history and not self.takes_history:
            raise ValueError(
                f"mode {self.mode} is not available in targets of type {self.type}; use iceberg "
                "or delta"
            )
        return self

    @model_validator(mode="after")
    def _check_existing_rows(self) -> Self:
        if "existing_rows" not in self.model_fields_set:
            return self
        regardless = "regardless of their writer; remove existing_rows"
        if self.write_mode.keeps_history:
            raise ValueError(f"mode {self.mode} keeps existing rows; remove existing_rows")
        if self.write_mode.merges_by_key:
            raise ValueError(f"mode upsert updates rows by their key, {regardless}")
        if self.write_mode.replaces_whole_table:
            raise ValueError(f"mode overwrite replaces all rows, {regardless}")
        if self.write_mode.replaces_own_range and self.window_column:
            raise ValueError(f"a window replaces all rows of its window_column, {regardless}")
        return self

    @model_validator(mode="after")
    def _check_key(self) -> Self:
        if self.write_mode.merges_by_key and not self.key:
            raise ValueError(f"mode {self.mode} needs key, the columns of a row's key")
        if self.key and not self.write_mode.merges_by_key:
            raise ValueError("key is only for the modes upsert and history")
        return self


class HistoryTarget(TableTarget):
    """A table that can keep each version of a row (SCD type 2), with the time of its validity."""

    takes_history = True

    sequence_by: str | None = Field(
        None,
        description="mode history: the column with the time of a change, which lies in the window; "
        "a window may then have several changes of a key. Default: the start of the window",
        examples=["changed_at"],
    )
    deleted_when: str | None = Field(
        None,
        description="mode history: SQL over the columns of the result; a row for which it is true "
        "closes the version of its key and starts no new one",
        examples=["op = 'D'"],
    )
    snapshot: bool | None = Field(
        None,
        description="mode history: true if a window has all rows of the source, so that a missing "
        "key was deleted; default: true for incremental_type full",
    )
    track: tuple[str, ...] = Field(
        (),
        description="mode history: the columns whose changes start a new version; the others have "
        "the values of the first change of a version. Default: all but the key and sequence_by; "
        "with sequence_by, every change starts a version",
        examples=[["city", "status"]],
    )
    valid_from: str = Field(
        "valid_from",
        description="mode history: the column with the start of a version",
        examples=["since"],
    )
    valid_to: str = Field(
        "valid_to",
        description="mode history: the column with the end of a version, which is the start of the "
        "next one; NULL for the current version",
        examples=["until"],
    )

    def has_all_rows(self, *, of_snapshots: bool) -> bool:
        """Return True if a window has all rows of its source, so that a missing key was deleted.

        `of_snapshots` is True if each window of the table is a snapshot.
        """
        if not self.write_mode.keeps_history:
            return False
        return of_snapshots and self.sequence_by is None if self.snapshot is None else self.snapshot

    @model_validator(mode="after")
    def _check_history(self) -> Self:
        if not self.write_mode.keeps_history:
            if given := [name for name in _OF_HISTORY if name in self.model_fields_set]:
                raise ValueError(f"{', '.join(given)}: only for mode history")
            return self
        if self.window_column is not None:
            raise ValueError(
                "window_column: not allowed for mode history, whose rows belong to the window of "
                "their valid_from; sequence_by names the column with the time of a change"
            )
        if self.snapshot and self.sequence_by:
            raise ValueError(
                "sequence_by: not allowed for a snapshot, whose versions begin with its window"
            )
        self._check_names()
        return self

    def _check_names(self) -> None:
        own = [self.valid_from.lower(), self.valid_to.lower()]
        if own[0] == own[1]:
            raise ValueError("valid_from and valid_to must be two columns")
        keys = [name.lower() for name in self.key]
        for name in self.track:
            if name.lower() in (*keys, *own):
                raise ValueError(
                    f"track: {name} must not be a column of the key, valid_from or valid_to"
                )
        for name in (*self.key, *filter(None, [self.sequence_by])):
            if name.lower() in own:
                raise ValueError(
                    f"{name} is the name of a column that mode history adds; choose other names "
                    "for these with valid_from and valid_to"
                )

    @property
    def row_key(self) -> tuple[str, ...]:
        return (*self.key, self.valid_from) if self.write_mode.keeps_history else self.key

    @property
    def added_columns(self) -> Mapping[str, str]:
        if not self.write_mode.keeps_history:
            return {}
        return {self.valid_from: "TIMESTAMP", self.valid_to: "TIMESTAMP"}
