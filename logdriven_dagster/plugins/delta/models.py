"""Delta tables, which delta-rs reads and commits; the extra `delta` installs it."""

from collections.abc import Iterator, Mapping
from typing import Literal

from pydantic import Field
from typing_extensions import Self

from logdriven_dagster.config.models.fields import LocationText
from logdriven_dagster.config.models.types.sources import Source
from logdriven_dagster.config.models.types.targets import FolderTarget, HistoryTarget


class DeltaSource(Source):
    """A Delta table, read at the version current when a window begins to read it."""

    reader = "logdriven_dagster.plugins.delta.reader:DeltaReader"

    type: Literal["delta"]
    path: str = Field(
        description="the table's folder or URL; relative to the project folder",
        examples=["s3a://bucket/orders"],
    )

    @property
    def place(self) -> str:
        return self.path

    def uses(self) -> Iterator[tuple[str, str]]:
        yield "source", self.path

    @property
    def texts(self) -> Mapping[str, str]:
        return {"path": self.path}

    def whole(self) -> "DeltaSource":
        """Return the source without `window_column`, so that no file is skipped."""
        return self.model_copy(update={"window_column": None})


class DeltaTarget(FolderTarget, HistoryTarget):
    """A Delta table, published window by window."""

    store = "logdriven_dagster.plugins.delta.target.table:DeltaTable"
    contents = "logdriven_dagster.plugins.delta.target.contents:DeltaContents"
    creates_files_once = True
    upkeep = "logdriven_dagster.plugins.delta.target.upkeep:DeltaUpkeep"

    type: Literal["delta"]
    path: LocationText | None = Field(
        None,
        description="a folder or URL; `<warehouse>/<layer>/<name>` by default",
        examples=["s3://bucket/orders"],
    )

    def rejected(self, table: str, mode: str) -> Self:
        return super().rejected(table, mode).model_copy(update={"key": ()})
