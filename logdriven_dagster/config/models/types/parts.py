"""What sources and targets have in common: they may name a connection, statements and folders."""

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from logdriven_dagster.config.models.fields import Model, Option


class Connected(NamedTuple):
    """The connection that a source or target names, and what it must lead to."""

    name: str
    to: str
    """`leads_to` of the connection."""


class Statement(NamedTuple):
    """SQL that a source or target asks a database for."""

    location: tuple[str | int, ...]
    """The field's place below the source or target."""
    sql: str
    connection: str


class Part(Model):
    """A source or a target. What it does not say of itself holds for most types."""

    group: ClassVar[str]
    """The group of entry points in which packages register such types."""
    in_catalog: ClassVar[bool] = False
    """Whether it needs the project's Iceberg catalog."""

    if TYPE_CHECKING:
        type: str
        """A Literal in each type: what the YAML names it by."""
        window_column: Any
        options: dict[str, Option]

    @property
    def connected(self) -> Connected | None:
        """The connection that the field `connection` names; None for types without one."""
        return None

    @property
    def folders(self) -> Mapping[str, str | None]:
        """Field → path of each folder to write to, which may name variables of the project."""
        return {}

    def statements(self) -> Iterator[Statement]:
        """Yield what a database is asked for in its own language."""
        yield from ()
