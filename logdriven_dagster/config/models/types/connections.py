"""Connections: databases, Kafka, and the types of installed packages."""

from abc import abstractmethod
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from pydantic import Field, model_validator
from pydantic_core import PydanticCustomError

from logdriven_dagster.config.models.fields import DatabaseUrl, Model, Option


class ConnectionType(Model):
    """Base class of every connection type."""

    group: ClassVar[str] = "logdriven.connections"

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
    """A database by its SQLAlchemy URL, from which the JDBC URL and driver follow; or Kafka."""

    url: DatabaseUrl | None = Field(
        None,
        description="the database as an SQLAlchemy URL; the password comes from a variable",
        examples=["postgresql://user:${env:PASSWORD}@host/database"],
    )
    jdbc: JdbcConfig = Field(
        JdbcConfig(), description="JDBC settings that cannot be derived from the URL"
    )
    kafka: dict[str, Option] | None = Field(
        None,
        description="a Kafka cluster instead of a database: librdkafka's settings, "
        "bootstrap.servers among them",
        examples=[{"bootstrap.servers": "host:9092"}],
    )
    type: Literal["database", "kafka"] = Field(
        "database", description="kind of server; by default derived from the field that is given"
    )

    @model_validator(mode="before")
    @classmethod
    def _type_of_field(cls, values: Any) -> Any:
        if not isinstance(values, dict):
            return values
        if values.get("type", "kafka") not in ("database", "kafka"):
            raise PydanticCustomError("union_tag_invalid", "unknown type")
        return {"type": "kafka", **values} if "kafka" in values else values

    @model_validator(mode="after")
    def _one_kind(self) -> "ConnectionConfig":
        if (self.url is None) == (self.kafka is None):
            raise ValueError("write either url or kafka")
        if (self.type == "kafka") == (self.kafka is None):
            needed = "kafka" if self.type == "kafka" else "url"
            raise ValueError(f"type {self.type} needs {needed}")
        if self.kafka is not None and "bootstrap.servers" not in self.kafka:
            raise ValueError("kafka: missing; add `bootstrap.servers: host:9092`")
        return self

    @property
    def leads_to(self) -> str:
        return "a database" if self.kafka is None else "Kafka"

    def option_groups(self) -> Iterator[tuple[tuple[str, ...], Mapping[str, Option]]]:
        yield ("kafka",), self.kafka or {}
        yield ("jdbc", "options"), self.jdbc.options
