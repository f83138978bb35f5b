"""What every type of source can say of itself."""

from abc import abstractmethod
from collections.abc import Iterator, Mapping
from typing import ClassVar

from pydantic import Field

from logdriven_dagster.config.models.fields import Option
from logdriven_dagster.config.models.types.parts import Part
from logdriven_dagster.config.models.types.time_columns import WindowColumn, column_name


class Source(Part):
    """The base of every type of source: where the rows of a step come from."""

    group = "logdriven.sources"

    reader: ClassVar[str]
    """Its `engine.sources.readers.Reader` as `package.module:Class`, which is loaded when a window
    runs: what checks a project starts no Spark."""
    has_offsets: ClassVar[bool] = False
    """Whether it is read along offsets, `incremental_type: kafka_offset`, and in no other way."""
    knows_other_tables: ClassVar[bool] = False
    """Whether a project that has such a source can query tables which no file declares."""

    window_column: WindowColumn | None = Field(
        None,
        description="read only rows whose value of this column lies in the window: a column of "
        "timestamps or dates, or of numbers or texts whose unit or format is given",
        examples=["ordered_at", {"name": "ts", "unit": "epoch_ms"}],
    )
    key_column: str | None = Field(
        None,
        description="incremental_type auto_inc_id: read only rows whose key lies in the window",
        examples=["id"],
    )
    options: dict[str, Option] = Field(
        default_factory=dict,
        description="any option of Spark's reader",
        examples=[{"encoding": "latin1"}],
    )

    @property
    def window_name(self) -> str | None:
        """The name of the `window_column`."""
        return column_name(self.window_column)

    @property
    @abstractmethod
    def place(self) -> str:
        """What lineage calls the place that it reads; written to by a target of the same place."""

    @abstractmethod
    def uses(self) -> Iterator[tuple[str, str]]:
        """Yield kind and name of what it uses: `connection`, `source` or `topic`."""

    @property
    def texts(self) -> Mapping[str, str]:
        """Field → text that may name variables, but for statements."""
        return {}

    @property
    def drops_records(self) -> bool:
        """Whether records may be left out on the way, so that fewer are counted than there are."""
        return False

    def mistakes(self) -> Iterator[tuple[str, str, str | None]]:
        """Yield field, problem and fix of what a run would stumble over."""
        yield from ()

    def only_of_slices(self) -> Iterator[str]:
        """Yield what only tables that have slices of the source can say of it."""
        if self.key_column is not None:
            yield "key_column needs incremental_type auto_inc_id"

    def slicing_mistakes(self) -> Iterator[str]:
        """Yield what contradicts slices in fields of this type."""
        yield from ()

    def whole(self) -> "Source":
        """Return the source without what keeps rows or records of it away from a reader."""
        return self
