"""What every type of target can say of itself."""

from abc import abstractmethod
from collections.abc import Iterator
from typing import TYPE_CHECKING, ClassVar, Literal

from pydantic import Field, field_validator, model_validator
from typing_extensions import Self

from logdriven_dagster.config.models.fields import Option
from logdriven_dagster.config.models.types.parts import Part
from logdriven_dagster.config.models.types.write_modes import WriteMode, write_mode

REJECTED = "__rejected"
"""How the names of targets end that take rejected rows."""


class Target(Part):
    """The base of every type of target: where the rows of a step go."""

    group = "logdriven.targets"

    store: ClassVar[str]
    """Its `Store` as `package.module:Class`, which is loaded when a window runs: what checks a
    project starts no Spark."""
    contents: ClassVar[str] = "logdriven_dagster.engine.targets.contents:Contents"
    """What tells without Spark what such targets hold, as text."""
    upkeep: ClassVar[str | None] = None
    """What removes its old versions and makes few files of many, as text; None: it has none."""
    is_counted_slowly: ClassVar[bool] = False
    """Whether somebody has to count its rows to know how many there are."""

    window_column: str | None = Field(
        None,
        description="the column whose value places a row in a window; "
        "without it a technical column `_window_start` does",
        examples=["ordered_at"],
    )
    options: dict[str, Option] = Field(
        default_factory=dict,
        description="any option of Spark's writer",
        examples=[{"compression": "zstd"}],
    )

    @field_validator("window_column", mode="before")
    @classmethod
    def _is_a_time(cls, value: object) -> object:
        if isinstance(value, dict):
            raise ValueError(
                "a target takes the name of a column of timestamps or dates; compute one in sql, "
                "as in SELECT *, timestamp_millis(ts) AS at FROM source"
            )
        return value

    if TYPE_CHECKING:
        mode: str
        """A Literal in each type: those of append, overwrite_window, overwrite and upsert."""

    @abstractmethod
    def place(self, table: str) -> str:
        """The place that a table writes to: two tables with one would delete each other's rows."""

    @abstractmethod
    def uses(self, table: str) -> Iterator[tuple[str, str]]:
        """Yield kind and name of what a table uses: `connection`, `target` or `topic`."""

    @property
    def source_place(self) -> str | None:
        """What the `place` of a source is called that reads these rows; None if there is none."""
        return None

    @property
    def write_mode(self) -> WriteMode:
        """What follows from `mode`."""
        return write_mode(self.mode)

    @property
    def replaces_rows(self) -> bool:
        """Whether a window replaces rows that are published, which can be read and counted."""
        return not self.write_mode.merges_by_key

    @property
    def stretch_obstacle(self) -> str | None:
        """Why adjoining windows cannot be written in one pass; None: they can."""
        return f"targets of type {self.type} take one window at a time"

    def rejected(self, table: str, mode: str) -> "Target | None":
        """The target of its own type that takes rejected rows of a table; None: Parquet files."""
        _ = table, mode
        return None


class TableTarget(Target):
    """A table that others may have filled before the first window comes."""

    mode: Literal["append", "overwrite_window", "overwrite", "upsert"] = Field(
        "overwrite_window",
        description="what a window does with the rows that are there: append adds its own; "
        "overwrite_window replaces the window's; overwrite replaces all; upsert updates rows with "
        "the same key and adds the others. Run again, a window leaves the same rows in every mode",
    )
    existing_rows: Literal["refuse", "keep", "replace"] = Field(
        "refuse",
        description="when no row of the table has a `_window_start`, as others wrote them: the "
        "first window is refused; they stay beside what is loaded; or the first window replaces "
        "them all",
    )
    key: tuple[str, ...] = Field(
        (), description="mode upsert: the columns that identify a row", examples=[["id"]]
    )

    @model_validator(mode="after")
    def _existing_rows_have_a_meaning(self) -> Self:
        if "existing_rows" not in self.model_fields_set:
            return self
        whatever = "whoever wrote them; remove existing_rows"
        if self.write_mode.merges_by_key:
            raise ValueError(f"mode upsert updates rows by their key, {whatever}")
        if self.write_mode.replaces_whole_table:
            raise ValueError(f"mode overwrite replaces all rows, {whatever}")
        if self.write_mode.replaces_own_range and self.window_column:
            raise ValueError(f"a window replaces all rows of its window_column, {whatever}")
        return self

    @model_validator(mode="after")
    def _key_is_for_upserts(self) -> Self:
        if self.write_mode.merges_by_key and not self.key:
            raise ValueError("mode upsert needs key, the columns of a row's key")
        if self.key and not self.write_mode.merges_by_key:
            raise ValueError("key is only for mode upsert")
        return self
