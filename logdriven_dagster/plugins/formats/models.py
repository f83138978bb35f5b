"""Sources of file formats that Python libraries read."""

from typing import Literal

from pydantic import Field, model_validator

from logdriven_dagster.config.models.types.files import FilesSource

_PATH_OPTIONS = frozenset(
    {"basepath", "modifiedafter", "modifiedbefore", "pathglobfilter", "recursivefilelookup"}
)


class LibraryFilesSource(FilesSource):
    """Files that a Python library reads: Spark lists them, so it has options only for that."""

    @model_validator(mode="after")
    def _check_options(self) -> "LibraryFilesSource":
        for name in self.options:
            if name.lower() not in _PATH_OPTIONS:
                raise ValueError(
                    f"options.{name}: not an option for a list of files; remove it, or use "
                    "pathGlobFilter, recursiveFileLookup, modifiedBefore, modifiedAfter or basePath"
                )
        return self


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
