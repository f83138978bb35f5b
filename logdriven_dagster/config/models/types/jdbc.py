"""Databases, accessed through JDBC drivers and SQLAlchemy."""

from collections.abc import Iterator, Mapping
from typing import Literal

from pydantic import Field, model_validator

from logdriven_dagster.config.models.types.parts import Connected, Statement
from logdriven_dagster.config.models.types.sources import Source
from logdriven_dagster.config.models.types.targets import REJECTED, TableTarget


class JdbcSource(Source):
    """A table or query of a connection."""

    reader = "logdriven_dagster.engine.sources.jdbc:JdbcReader"

    type: Literal["jdbc"]
    connection: str = Field(
        description="the name of a connection of the project", examples=["shop"]
    )
    table: str | None = Field(None, description="a table of the database", examples=["orders"])
    query: str | None = Field(
        None,
        description="a query in the database's own SQL instead",
        examples=["SELECT * FROM orders WHERE country = 'NL'"],
    )
    partitions: int = Field(
        1,
        ge=1,
        description="auto_inc_id: the number of parallel queries to read a window",
        examples=[4],
    )

    @model_validator(mode="after")
    def _check_one_origin(self) -> "JdbcSource":
        if (self.table is None) == (self.query is None):
            raise ValueError("give either table or query")
        return self

    @property
    def connected(self) -> Connected:
        return Connected(self.connection, "a database")

    @property
    def place(self) -> str:
        return f"{self.connection}:{self.table}"

    def uses(self) -> Iterator[tuple[str, str]]:
        yield "connection", self.connection
        if self.table is not None:
            yield "source", self.table

    @property
    def texts(self) -> Mapping[str, str]:
        return {} if self.table is None else {"table": self.table}

    def statements(self) -> Iterator[Statement]:
        if self.query is not None:
            yield Statement(("query",), self.query, self.connection)

    def slicing_mistakes(self) -> Iterator[str]:
        if self.partitions > 1 and not self.key_column:
            yield "partitions needs key_column"

    def whole(self) -> "JdbcSource":
        return self.model_copy(update={"window_column": None, "key_column": None})


class JdbcTarget(TableTarget):
    """A table of a database; one transaction moves a window into place."""

    takes_registered_modes = True
    store = "logdriven_dagster.engine.targets.jdbc.table:JdbcTable"
    contents = "logdriven_dagster.engine.targets.jdbc.contents:JdbcContents"

    type: Literal["jdbc"]
    connection: str = Field(
        description="the name of a connection of the project", examples=["shop"]
    )
    table: str = Field(description="a table of the database", examples=["daily_sales"])
    pre_sql: tuple[str, ...] = Field(
        (),
        description="statements to execute first in the transaction that publishes, after the "
        "step has read; for statements before the read, use commit_before_read of "
        "the step",
        examples=[["SET LOCAL work_mem = '1GB'"]],
    )

    @property
    def connected(self) -> Connected:
        return Connected(self.connection, "a database")

    def place(self, table: str) -> str:
        _ = table
        return f"jdbc {self.connection}.{self.table}".lower()

    def uses(self, table: str) -> Iterator[tuple[str, str]]:
        _ = table
        yield "connection", self.connection
        yield "target", self.table

    @property
    def source_place(self) -> str:
        return f"{self.connection}:{self.table}"

    @property
    def stretch_obstacle(self) -> str | None:
        return "pre_sql runs for each window separately" if self.pre_sql else None

    def statements(self) -> Iterator[Statement]:
        for n, sql in enumerate(self.pre_sql):
            yield Statement(("pre_sql", n), sql, self.connection)

    def rejected(self, table: str, mode: str) -> "JdbcTarget":
        _ = table
        named = self.table + REJECTED
        update = {"mode": mode, "window_column": None, "key": (), "pre_sql": (), "table": named}
        return self.model_copy(update=update)
