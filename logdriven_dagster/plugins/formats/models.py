"""Sources of file formats that Python libraries read."""

from collections.abc import Iterator
from typing import Literal

from pydantic import Field

from logdriven_dagster.config.models.types.files import FilesSource

_PATH_OPTIONS = frozenset(
    {"basepath", "modifiedafter", "modifiedbefore", "pathglobfilter", "recursivefilelookup"}
)


class LibraryFilesSource(FilesSource):
    """Files that a Python library reads: Spark lists them, so it has options only for that."""

    def mistakes(self) -> Iterator[tuple[str, str, str | None]]:
        yield from super().mistakes()
        for name in self.options:
            if name.lower() not in _PATH_OPTIONS:
                problem = f"{name} is not an option for a list of files"
                yield "options", problem, "remove it, or use pathGlobFilter or basePath"


class AvroSource(LibraryFilesSource):
    """Avro files, read with the types of their schemas."""

    reader = "logdriven_dagster.plugins.formats.avro:AvroReader"

    type: Literal["avro"]


class ExcelSource(LibraryFilesSource):
    """A sheet of each Excel workbook (.xlsx, .xlsm)."""

    reader = "logdriven_dagster.plugins.formats.excel:ExcelReader"

    type: Literal["excel"]
    columns: str = Field(
        description="the columns of the sheet in their order, as Spark DDL",
        examples=["id BIGINT, ordered_on DATE"],
    )
    sheet: str | None = Field(
        None,
        description="the name of the sheet; default: the only sheet of the workbook",
        examples=["Orders"],
    )
    header_row: int | None = Field(
        1, ge=1, description="the row with the column names; null for sheets without names"
    )
    last_row: int | None = Field(
        None, ge=1, description="the last row with data; default: the last row of the sheet"
    )
