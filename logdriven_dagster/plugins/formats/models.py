"""Sources of file formats that Python reads."""

from collections.abc import Iterator
from itertools import accumulate, pairwise
from typing import Annotated, Literal

from pydantic import Field, model_validator

from logdriven_dagster.config.models.types.declared_columns import list_declared_columns
from logdriven_dagster.config.models.types.files import FilesSource

_PATH_OPTIONS = frozenset(
    {"basepath", "modifiedafter", "modifiedbefore", "pathglobfilter", "recursivefilelookup"}
)


class LibraryFilesSource(FilesSource):
    """Files that a Python library reads: Spark lists them, so it has options only for that."""

    mode: Literal["FAILFAST", "PERMISSIVE", "DROPMALFORMED"] = Field(
        "FAILFAST",
        description="for records with values that cannot be read: FAILFAST fails the window; "
        "PERMISSIVE sets the values to NULL; DROPMALFORMED drops the records. The log has their "
        "number in the last two cases",
    )

    @model_validator(mode="after")
    def _check_options(self) -> "LibraryFilesSource":
        for name in self.options:
            if name.lower() not in _PATH_OPTIONS:
                raise ValueError(
                    f"options.{name}: not an option for a list of files; remove it, or use "
                    "pathGlobFilter, recursiveFileLookup, modifiedBefore, modifiedAfter or basePath"
                )
        return self

    @property
    def strict_names(self) -> frozenset[str]:
        """The lower-case names of the columns that fail every window if they cannot be read.

        They decide to which window a row belongs.
        """
        if self.mode != "FAILFAST":
            return frozenset()
        return frozenset(name.lower() for name in (self.window_name, self.key_column) if name)

    @property
    def drops_records(self) -> bool:
        return self.mode == "DROPMALFORMED"


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


class FixedWidthSource(LibraryFilesSource):
    """Lines of text whose columns are at fixed positions."""

    reader = "logdriven_dagster.plugins.formats.fixed_width:FixedWidthReader"

    type: Literal["fixed_width"]
    columns: str = Field(
        description="the columns in their order, as Spark DDL",
        examples=["id INT, name STRING, amount DECIMAL(9, 2)"],
    )
    widths: list[Annotated[int, Field(ge=1)]] = Field(
        description="the number of characters of each column", examples=[[6, 20, 10]]
    )
    starts: list[Annotated[int, Field(ge=1)]] | None = Field(
        None,
        description="the position of the first character of each column, from 1; default: each "
        "column starts where the one before it ends. Characters between columns are not read",
        examples=[[1, 11, 31]],
    )
    encoding: str = Field(
        "utf-8", description="the encoding of the files", examples=["iso-8859-1", "cp1252"]
    )
    header_lines: int = Field(
        0, ge=0, description="the number of lines at the start of each file that are not read"
    )

    @model_validator(mode="after")
    def _check_layout(self) -> "FixedWidthSource":
        try:
            b" ".decode(self.encoding, "replace")
        except LookupError:
            raise ValueError(
                f"encoding: {self.encoding} is not an encoding of Python; write one such as utf-8, "
                "iso-8859-1 or cp1252"
            ) from None
        if self.starts is not None and len(self.starts) != len(self.widths):
            raise ValueError(
                f"starts has {len(self.starts)} positions, but widths has {len(self.widths)} "
                "numbers; write one of each for each column"
            )
        for (_, end), (start, _) in pairwise(self.positions):
            if start < end:
                raise ValueError(
                    f"starts: {start + 1} is within the column before it, which ends at position "
                    f"{end}; correct starts or widths"
                )
        return self

    @property
    def positions(self) -> tuple[tuple[int, int], ...]:
        """The start and end of each column, from 0; ends are exclusive."""
        ends = list(accumulate(self.widths))
        starts = [0, *ends[:-1]] if self.starts is None else [start - 1 for start in self.starts]
        return tuple(
            (start, start + width) for start, width in zip(starts, self.widths, strict=True)
        )

    def mistakes(self) -> Iterator[tuple[str, str, str | None]]:
        yield from super().mistakes()
        if "${" not in self.columns:
            count = len(list_declared_columns(self.columns))
            if count != len(self.widths):
                problem = f"has {len(self.widths)} numbers, but columns has {count} columns"
                yield "widths", problem, "write one number for each column"


class XmlSource(LibraryFilesSource):
    """The elements of one name in XML files."""

    reader = "logdriven_dagster.plugins.formats.xml:XmlReader"

    type: Literal["xml"]
    columns: str = Field(
        description="the attributes (`_name`) and elements of a row, as Spark DDL",
        examples=["_id BIGINT, name STRING, items ARRAY<STRUCT<sku: STRING, amount: INT>>"],
    )
    row_tag: str = Field(
        min_length=1, description="the name of the elements that are rows", examples=["order"]
    )
    unknown_fields: Literal["refuse", "ignore"] = Field(
        "refuse",
        description="for elements and attributes that are not in columns: fail the window, or "
        "ignore them",
    )
