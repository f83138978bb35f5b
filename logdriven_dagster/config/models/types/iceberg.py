"""Tables of the project's Iceberg catalog, written by this project or by other programs."""

from collections.abc import Iterator
from typing import Literal

from pydantic import Field

from logdriven_dagster.config.models.fields import TableName
from logdriven_dagster.config.models.types.sources import Source
from logdriven_dagster.config.models.types.targets import REJECTED, HistoryTarget


class IcebergSource(Source):
    """A source: a table of the project's Iceberg catalog that other programs fill."""

    reader = "logdriven_dagster.engine.sources.iceberg:IcebergReader"
    in_catalog = True

    type: Literal["iceberg"]
    name: TableName = Field(description="the table's name in the catalog")

    @property
    def place(self) -> str:
        return f"iceberg {self.name.lower()}"

    def uses(self) -> Iterator[tuple[str, str]]:
        yield "source", self.name

    def whole(self) -> "IcebergSource":
        """Return the source without its window and key columns, so that no file is skipped."""
        return self.model_copy(update={"window_column": None, "key_column": None})


class IcebergTarget(HistoryTarget):
    """An Iceberg table of the project's catalog, the default."""

    takes_registered_modes = True
    has_only_columns_of_results = True
    store = "logdriven_dagster.engine.targets.iceberg.table:IcebergTable"
    contents = "logdriven_dagster.engine.targets.iceberg.contents:IcebergContents"
    upkeep = "logdriven_dagster.engine.targets.iceberg.upkeep:IcebergUpkeep"
    in_catalog = True

    type: Literal["iceberg"]
    name: TableName | None = Field(
        None, description="its name in the catalog; the table's own name by default"
    )

    def place(self, table: str) -> str:
        return f"iceberg {(self.name or table).lower()}"

    def uses(self, table: str) -> Iterator[tuple[str, str]]:
        yield "target", self.name or table

    @property
    def stretch_obstacle(self) -> str | None:
        return None

    def rejected(self, table: str, mode: str) -> "IcebergTarget":
        named = (self.name or table) + REJECTED
        return self.model_copy(
            update={"mode": mode, "window_column": None, "key": (), "name": named}
        )
