"""Connections: databases, and the base class of the types that packages register."""

from abc import abstractmethod
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, ClassVar, Literal

from pydantic import Field

from logdriven_dagster.config.models.fields import DatabaseUrl, Model, Option


class ConnectionType(Model):
    """Base class of every connection type."""

    group: ClassVar[str] = "logdriven.connections"
    mark: ClassVar[str | None] = None
    """Required field that selects this type in a connection without `type`, or None."""

    if TYPE_CHECKING:
        type: str
        """Name of the type in YAML: a Literal in each subclass."""

    @property
    @abstractmethod
    def leads_to(self) -> str:
        """Kind of server in words, such as `a database`; sources and targets require it."""

    def option_groups(self) -> Iterator[tuple[tuple[str, ...], Mapping[str, Option]]]:
        """Yield fields that may hold secrets by names, with the place of each group of them."""
        given = self.model_dump()
        yield (), {name: value for name, value in given.items() if isinstance(value, str)}


class JdbcConfig(Model):
    """JDBC settings that cannot be derived from the SQLAlchemy URL."""

    url: str | None = Field(
        None,
        description="the JDBC URL; by default it follows from the URL of the connection",
        examples=["jdbc:postgresql://db/shop?sslmode=require"],
    )
    driver: str | None = Field(
        None,
        description="the class of the JDBC driver; known for PostgreSQL, MariaDB, MySQL and SQLite",
        examples=["oracle.jdbc.OracleDriver"],
    )
    options: dict[str, Option] = Field(
        default_factory=dict,
        description="options of Spark's JDBC reader and writer, for all uses of the connection",
        examples=[{"fetchsize": 10000}],
    )


class ConnectionConfig(ConnectionType):
    """A database by its SQLAlchemy URL, from which the JDBC URL and driver follow."""

    mark = "url"

    url: DatabaseUrl = Field(
        description="the database as an SQLAlchemy URL; the password comes from a variable",
        examples=["postgresql://user:${env:PASSWORD}@host/database"],
    )
    jdbc: JdbcConfig = Field(
        JdbcConfig(), description="JDBC settings that cannot be derived from the URL"
    )
    type: Literal["database"] = Field(
        "database", description="kind of server; by default derived from the field that is given"
    )

    @property
    def leads_to(self) -> str:
        return "a database"

    def option_groups(self) -> Iterator[tuple[tuple[str, ...], Mapping[str, Option]]]:
        yield ("jdbc", "options"), self.jdbc.options
