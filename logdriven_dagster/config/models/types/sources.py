"""Base class of source types."""

from abc import abstractmethod
from collections.abc import Iterator, Mapping
from typing import ClassVar

from pydantic import Field

from logdriven_dagster.config.models.frozen import Option
from logdriven_dagster.config.models.types.parts import Part
from logdriven_dagster.config.models.types.time_columns import WindowColumn, get_column_name


class Source(Part):
    """The base of every type of source: the rows that a step reads."""

    group = "logdriven.sources"

    reader: ClassVar[str]
    """Path `package.module:Class` of its `engine.sources.readers.Reader`.

    The class is loaded when a window runs, so that checking a project does not start Spark.
    """
    has_offsets: ClassVar[bool] = False
    """True if it is read by offset range, and only with `incremental_type: kafka_offset`."""
    knows_other_tables: ClassVar[bool] = False
    """True if queries of a project with such a source may use tables that no file declares."""

    window_column: WindowColumn | None = Field(
        None,
        description="read only rows whose value in this column is in the window: a column of "
        "timestamps or dates, or of numbers or texts with a given unit or format",
        examples=["ordered_at", {"name": "ts", "unit": "epoch_ms"}],
    )
    key_column: str | None = Field(
        None,
        description="incremental_type auto_inc_id: read only rows whose key is in the window",
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
        return get_column_name(self.window_column)

    @property
    def known_columns(self) -> frozenset[str] | None:
        """Names of all columns that its rows can have, or None if they are not declared."""
        return None

    @property
    @abstractmethod
    def place(self) -> str:
        """Lineage name of the dataset that it reads; a target that writes it has the same."""

    @abstractmethod
    def uses(self) -> Iterator[tuple[str, str]]:
        """Yield kind and name of each resource it uses: `connection`, `source` or `topic`."""

    @property
    def texts(self) -> Mapping[str, str]:
        """Text that may contain variables, by field, except SQL statements."""
        return {}

    @property
    def drops_records(self) -> bool:
        """True if the reader may drop records, so that counts may be too low."""
        return False

    def mistakes(self) -> Iterator[tuple[str, str, str | None]]:
        """Yield field, problem and fix of each setting that would fail at run time."""
        yield from ()

    def only_of_slices(self) -> Iterator[str]:
        """Yield a problem for each field that only tables with key or offset ranges may set."""
        if self.key_column is not None:
            yield "key_column needs incremental_type auto_inc_id"

    def slicing_mistakes(self) -> Iterator[str]:
        """Yield a problem for each field of this type that contradicts reading by range."""
        yield from ()

    def whole(self) -> "Source":
        """Return the source without settings that hide rows or records from a reader."""
        return self
