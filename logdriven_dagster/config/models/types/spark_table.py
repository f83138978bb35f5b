"""Tables of Spark's own catalog (Hive metastore, a configured connector), read only.

They cannot be targets: neither a metastore nor Spark's insert has a compare-and-swap, so a window
could be left half written, and an insert by a stale runner could not be rejected.
"""

from collections.abc import Iterator, Mapping
from typing import Literal

from pydantic import Field

from logdriven_dagster.config.models.types.sources import Source


class CatalogSource(Source):
    """A source: a table of Spark's own catalog."""

    reader = "logdriven_dagster.engine.sources.spark_table:SparkTableReader"
    knows_other_tables = True

    type: Literal["table"]
    name: str = Field(description="the table's name in Spark's catalog", examples=["sales.orders"])

    @property
    def place(self) -> str:
        return self.name

    def uses(self) -> Iterator[tuple[str, str]]:
        yield "source", self.name

    @property
    def texts(self) -> Mapping[str, str]:
        return {"name": self.name}
