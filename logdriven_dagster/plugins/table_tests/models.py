"""Models of `tests/**/*.yaml`: given rows, windows to run, and the expected result."""

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, model_validator

from logdriven_dagster.config.models.fields import TableName
from logdriven_dagster.config.models.frozen import Model, Option

_Row = dict[str, Any]
Count = Literal["source", "target", "rejected", "inserted", "updated", "malformed"]
"""A count of the last window; see `logdriven log`."""


class Rows(Model):
    """Rows that are written in the test, or a file of them."""

    rows: tuple[_Row, ...] | None = Field(
        None,
        description="the rows; a column that a row leaves out is NULL",
        examples=[[{"id": 1, "amount": 5}]],
    )
    columns: str | None = Field(
        None,
        description="the columns with their types, as Spark DDL; default: the declared columns of "
        "the source, the columns of the table, or else inferred from the values",
        examples=["id INT, ordered_at TIMESTAMP, amount DECIMAL(12,2)"],
    )
    csv: str | None = Field(
        None,
        description="a CSV file with a header, relative to the test; empty values are NULL",
        examples=["fixtures/orders.csv"],
    )
    json_file: str | None = Field(
        None,
        alias="json",
        description="a file with one JSON object per line, relative to the test",
        examples=["fixtures/orders.json"],
    )
    parquet: str | None = Field(
        None,
        description="a Parquet file, relative to the test",
        examples=["fixtures/orders.parquet"],
    )

    @property
    def origins(self) -> list[str]:
        """The fields that provide the rows; a valid object has one."""
        given = {
            "rows": self.rows is not None,
            "csv": self.csv is not None,
            "json": self.json_file is not None,
            "parquet": self.parquet is not None,
        }
        return [name for name, is_given in given.items() if is_given]


class GivenRows(Rows):
    """The rows of a source, of an upstream table, or of the target before the first window."""

    @model_validator(mode="after")
    def _check_one_origin(self) -> "GivenRows":
        if len(self.origins) != 1:
            raise ValueError("give one of rows, csv, json and parquet")
        return self


def _convert_rows(value: Any) -> Any:
    return {"rows": value} if isinstance(value, (list, tuple)) else value


GivenField = Annotated[
    GivenRows,
    BeforeValidator(_convert_rows, json_schema_input_type=tuple[_Row, ...] | GivenRows),
]


class Expectation(Rows):
    """The expected result of the windows."""

    exact: bool = Field(
        False, description="true: also compare the columns that the expected rows do not name"
    )
    rejected: Annotated[int, Field(ge=0)] | tuple[_Row, ...] | None = Field(
        None,
        description="the rows that quality rules reject in the last window: their number, or the "
        "rows of the table of rejected rows",
        examples=[1],
    )
    counts: dict[Count, int] = Field(
        default_factory=dict,
        description="row counts of the last window, as in the run log",
        examples=[{"source": 2, "target": 1}],
    )
    fails: str | None = Field(
        None,
        min_length=1,
        description="a part of the message with which the last window must fail",
        examples=["amount is not positive"],
    )

    @model_validator(mode="after")
    def _check_content(self) -> "Expectation":
        if len(self.origins) > 1:
            raise ValueError("give only one of rows, csv, json and parquet")
        if not (self.origins or self.counts or self.fails) and self.rejected is None:
            raise ValueError("give rows, rejected, counts or fails")
        if self.fails and (self.counts or self.rejected is not None):
            raise ValueError("a window that fails has no counts and no rejected rows")
        if self.exact and not self.origins:
            raise ValueError("exact needs rows")
        return self


class WindowBounds(Model):
    """A range of time windows, or of keys."""

    start: str | int = Field(
        description="the start of the first window; the key after which the first window begins",
        examples=["2022-01-01"],
    )
    end: str | int | None = Field(
        None,
        description="the end of the last window; by default one window runs",
        examples=["2022-01-08"],
    )


def _convert_window(value: Any) -> Any:
    return {"start": value} if isinstance(value, (str, int)) else value


WindowField = Annotated[
    WindowBounds,
    BeforeValidator(_convert_window, json_schema_input_type=str | int | WindowBounds),
]


class WindowsPart(Model):
    """Windows that run in this order, with the rows that they read and the expected result."""

    window: WindowField | None = Field(
        None,
        description="the start of the window to run, or start and end; by default the first window "
        "of a snapshot table, and the next one of a table without time windows",
        examples=["2022-01-01"],
    )
    windows: tuple[WindowField, ...] | None = Field(
        None,
        min_length=1,
        description="several windows, in the order in which they run",
        examples=[["2022-01-01", "2022-01-02"]],
    )
    given: dict[str, GivenField] = Field(
        default_factory=dict,
        description="the rows of sources and upstream tables: by the name of the table, of the "
        "step that reads the source, or `source` for the only source. Others are empty",
        examples=[{"ods.orders": [{"id": 1, "amount": 5}]}],
    )
    variables: dict[str, Option] = Field(
        default_factory=dict,
        description="values of variables of the table or project",
        examples=[{"country": "DE"}],
    )
    expect: Expectation | None = Field(
        None,
        description="the expected rows of the table after the windows, and their counts",
        examples=[{"rows": [{"id": 1, "amount": 5}]}],
    )

    @model_validator(mode="after")
    def _check_one_window(self) -> "WindowsPart":
        if self.window is not None and self.windows is not None:
            raise ValueError("give either window or windows")
        return self

    @property
    def bounds(self) -> tuple[WindowBounds, ...]:
        """The windows to run; empty for the default one."""
        return self.windows or (() if self.window is None else (self.window,))


class TableTest(WindowsPart):
    """A test of one table: given rows, windows, and the expected result."""

    test: str = Field(
        min_length=1,
        description="the rule that the test proves",
        examples=["an order at midnight belongs to the new day"],
    )
    table: TableName = Field(description="the table whose windows run")
    existing: GivenField | None = Field(
        None,
        description="the rows of the table before the first window. `_window_start` is the start "
        "of the window that wrote a row; by default that of its window_column, or the window "
        "before the first one",
        examples=[[{"id": 1, "amount": 4}]],
    )
    then: tuple[WindowsPart, ...] = Field(
        (),
        description="further windows, after the first ones: their given rows replace the earlier "
        "ones of the same source",
        examples=[[{"window": "2022-01-02", "expect": {"rows": [{"id": 1, "amount": 6}]}}]],
    )

    @model_validator(mode="after")
    def _check_expectation(self) -> "TableTest":
        if all(part.expect is None for part in (self, *self.then)):
            raise ValueError("expect: missing; add the rows that the table should have")
        return self

    @property
    def parts(self) -> tuple[WindowsPart, ...]:
        """The windows of the test and those of `then`, in running order."""
        return (self, *self.then)
