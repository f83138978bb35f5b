"""Given rows: reading them from files, their columns, and the Parquet files that hold them."""

import csv
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, TypeAlias
from zoneinfo import ZoneInfo

from logdriven_dagster.config.models.fields import read_instant
from logdriven_dagster.config.project import Project
from logdriven_dagster.engine.arrow.types import arrow_schema
from logdriven_dagster.engine.failures import step_errors
from logdriven_dagster.engine.queries.schemas import WINDOW_START
from logdriven_dagster.engine.spark.modes import mode_of
from logdriven_dagster.engine.window.analysis import find_columns
from logdriven_dagster.errors import StepError, in_brief
from logdriven_dagster.model.periods import Grid
from logdriven_dagster.model.windows import TimeWindow
from logdriven_dagster.plugins.table_tests.given.inference import infer_columns
from logdriven_dagster.plugins.table_tests.given.values import convert_row

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

Refuse: TypeAlias = Callable[[int, str, str], NoReturn]
"""Raises an error for the number of a row, the name of a column, and the problem."""


@dataclass(frozen=True, slots=True)
class RowTexts:
    """Rows as they are written in a test or in a file, not converted yet."""

    rows: Sequence[Mapping[str, Any]]
    lines: Sequence[int] = ()
    """The line of each row in its file."""
    schema: "pa.Schema | None" = None
    """The columns of a Parquet file."""
    are_texts: bool = False
    """True if all values are texts, as in a CSV file."""


def read_csv(path: Path) -> RowTexts:
    """Read a CSV file with a header; a value without text is NULL.

    Raises ValueError for a file that is not UTF-8, or has a line with other columns.
    """
    rows, lines = [], []
    with path.open(encoding="utf-8-sig", newline="") as file:
        reader = csv.reader(file, strict=True)
        names = next(reader, [])
        for values in _wrap_errors(reader):
            if not values:
                continue
            if len(values) != len(names):
                count = f"{len(values)} values, but the header has {len(names)} columns"
                raise ValueError(f"line {reader.line_num} has {count}")
            rows.append({n: v or None for n, v in zip(names, values, strict=True)})
            lines.append(reader.line_num)
    return RowTexts(rows, lines, are_texts=True)


def _wrap_errors(reader: Any) -> Iterator[list[str]]:
    try:
        yield from reader
    except csv.Error as error:
        raise ValueError(f"line {reader.line_num} is not valid CSV: {error}") from None


def read_json(path: Path) -> RowTexts:
    """Read a file with one JSON object per line, or with one list of objects.

    Raises ValueError for anything else.
    """
    text = path.read_text(encoding="utf-8-sig")
    if text.lstrip().startswith("["):
        rows = json.loads(text, parse_float=Decimal)
        lines = []
    else:
        numbered = [(n, line) for n, line in enumerate(text.splitlines(), 1) if line.strip()]
        rows = [_parse_line(n, line) for n, line in numbered]
        lines = [n for n, _ in numbered]
    if any(not isinstance(row, dict) for row in rows):
        raise ValueError('it must contain JSON objects, such as {"id": 1}')
    return RowTexts(rows, lines)


def _parse_line(number: int, line: str) -> Any:
    try:
        return json.loads(line, parse_float=Decimal)
    except ValueError as error:
        raise ValueError(f"line {number} is not valid JSON: {error}") from None


def read_parquet(path: Path) -> RowTexts:
    """Read a Parquet file with its types. Raises ValueError for another file."""
    import pyarrow as pa
    from pyarrow import parquet

    try:
        table = parquet.read_table(path)
    except pa.ArrowException as error:
        raise ValueError(f"it is not a Parquet file: {error}") from None
    return RowTexts(table.to_pylist(), schema=table.schema)


READERS: Mapping[str, Callable[[Path], RowTexts]] = {
    "csv": read_csv,
    "json": read_json,
    "parquet": read_parquet,
}
"""Field of given rows → the function that reads such a file."""


def parse_columns(spark: "SparkSession", columns: str) -> "pa.Schema":
    """Parse columns of Spark's DDL. Raises ValueError if they are invalid or cannot be given."""
    try:
        with step_errors():
            return convert_schema(mode_of(spark).parse_columns(columns))
    except StepError as error:
        raise ValueError(in_brief(str(error))) from None


def convert_schema(schema: "StructType") -> "pa.Schema":
    """Return columns in Arrow's types. Raises ValueError for a type that cannot be given."""
    found = arrow_schema(schema)
    if found is None:
        names = schema.simpleString()
        raise ValueError(f"a type of the columns {names} cannot be given in a test")
    return found


def find_table_columns(project: Project, spark: "SparkSession") -> "dict[str, pa.Schema]":
    """Return the columns of the tables of a project, if their queries determine them."""
    found = {}
    for name, schema in find_columns(project, spark).items():
        if (columns := arrow_schema(schema)) is not None:
            found[name] = columns
    return found


def infer_schema(spark: "SparkSession", texts: RowTexts) -> "pa.Schema":
    """Return the columns of rows by their values; see `inference`. Raises ValueError."""
    if texts.schema is not None:
        return texts.schema
    return parse_columns(spark, ", ".join(infer_columns(texts.rows, from_texts=texts.are_texts)))


def add_window_start(schema: "pa.Schema", texts: RowTexts) -> "pa.Schema":
    """Return the columns with `_window_start`, if a row has it."""
    import pyarrow as pa

    if WINDOW_START in schema.names or not any(WINDOW_START in row for row in texts.rows):
        return schema
    return schema.append(pa.field(WINDOW_START, pa.timestamp("us", tz="UTC")))


def build_table(
    rows: Sequence[Mapping[str, Any]], schema: "pa.Schema", zone: ZoneInfo, refuse: Refuse
) -> "pa.Table":
    """Convert rows to the types of their columns.

    Args:
        rows: the rows; a column that one of them leaves out is NULL.
        schema: the columns.
        zone: the zone of timestamps without an offset.
        refuse: raises the error for a row, a column and a problem.
    """
    import pyarrow as pa

    fields = [schema.field(n) for n in range(len(schema))]
    converted = []
    for number, row in enumerate(rows):

        def refuse_column(name: str, problem: str, number: int = number) -> NoReturn:
            refuse(number, name, problem)

        converted.append(convert_row(row, fields, zone, refuse_column))
    nullable = pa.schema([pa.field(field.name, field.type) for field in fields])
    return pa.Table.from_pylist(converted, schema=nullable)


def number_rows(table: "pa.Table", name: str) -> "pa.Table":
    """Return rows with their numbers, from 0, in a column in which they have no value."""
    import pyarrow as pa

    known = table.column(name).to_pylist()
    values = [number if value is None else value for number, value in enumerate(known)]
    place, field = table.column_names.index(name), table.schema.field(name)
    return table.set_column(place, field, pa.array(values, field.type))


def write_rows(table: "pa.Table", path: Path) -> None:
    """Write rows as a Parquet file."""
    from pyarrow import parquet

    path.parent.mkdir(parents=True, exist_ok=True)
    parquet.write_table(table, path, coerce_timestamps="us")


def create_frame(spark: "SparkSession", table: "pa.Table") -> "DataFrame":
    """Return rows as a frame."""
    return spark.createDataFrame(table)


def split_by_window(
    table: "pa.Table", column: str | None, grid: Grid, other: TimeWindow
) -> "dict[TimeWindow, pa.Table]":
    """Divide rows by their windows: of `_window_start`, of a window column, or else `other`.

    Raises ValueError for a row without a time in this column.
    """
    name = WINDOW_START if WINDOW_START in table.column_names else column
    if name is None or not table.num_rows:
        return {other: table}
    if name not in table.column_names:
        raise ValueError(f"the rows have no column {name}, which determines their windows")
    found: dict[TimeWindow, list[int]] = {}
    for number, value in enumerate(table.column(name).to_pylist()):
        if value is None:
            raise ValueError(f"a row has no value in {name}, which determines its window")
        window = grid.window(grid.index(read_instant(value, grid.zone)))
        found.setdefault(window, []).append(number)
    kept = [each for each in table.column_names if each != WINDOW_START]
    return {window: table.take(numbers).select(kept) for window, numbers in found.items()}
