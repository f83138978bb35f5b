"""Base of source and target types: connections, statements and folders that they may name."""

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from logdriven_dagster.config.models.fields import Model, Option


class Connected(NamedTuple):
    """The connection that a source or target names, and the kind that it must have."""

    name: str
    to: str
    """`leads_to` of the connection."""


class Statement(NamedTuple):
    """An SQL statement that a source or target sends to a database."""

    location: tuple[str | int, ...]
    """Location of the field below the source or target."""
    sql: str
    connection: str


class Part(Model):
    """Base of sources and targets, with the defaults that hold for most types."""

    group: ClassVar[str]
    """Group of entry points in which packages register types."""
    transient_errors: ClassVar[str | None] = None
    """Path `package.module:function` that returns whether a retry may help after an exception.

    None if exceptions of this type's client are judged as those of files, databases and Spark are.
    """
    in_catalog: ClassVar[bool] = False
    """True if the type needs the project's Iceberg catalog."""

    if TYPE_CHECKING:
        type: str
        """Name of the type in YAML; each type narrows it to a Literal."""
        window_column: Any
        options: dict[str, Option]

    @property
    def connected(self) -> Connected | None:
        """The connection that the field `connection` names; None for types without one."""
        return None

    @property
    def folders(self) -> Mapping[str, str | None]:
        """Path of each folder that is written to, by field; paths may contain project variables."""
        return {}

    def statements(self) -> Iterator[Statement]:
        """Yield the SQL statements that are sent to a database."""
        yield from ()
