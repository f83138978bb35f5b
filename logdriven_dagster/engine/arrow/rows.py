"""Rows in Arrow batches, read on demand."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime, time
from typing import TYPE_CHECKING, Any
from zoneinfo import ZoneInfo

from logdriven_dagster.errors import TerminalStepError
from logdriven_dagster.model.windows import TimeWindow

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True, slots=True)
class ArrowRows:
    """Rows of a table, read lazily."""

    schema: "pa.Schema"
    batches: "Iterable[pa.RecordBatch]"

    def filter_by_window(self, column: str, window: TimeWindow) -> "ArrowRows":
        """Return the rows whose column lies in `[start, end)`, by Spark's comparison."""
        return ArrowRows(self.schema, (_chosen(each, column, window) for each in self.batches))

    def without(self, column: str) -> "ArrowRows":
        """Return the rows without a column, which need not exist."""
        if column not in self.schema.names:
            return self
        number = self.schema.get_field_index(column)
        left = (each.remove_column(number) for each in self.batches)
        return ArrowRows(self.schema.remove(number), left)

    def first(self, limit: int) -> "pa.Table":
        """Return the first rows, at most `limit`."""
        import pyarrow as pa

        return pa.Table.from_batches(list(_up_to(self.batches, limit)), self.schema)

    def reader(self) -> "pa.RecordBatchReader":
        """Return a stream of all rows."""
        import pyarrow as pa

        return pa.RecordBatchReader.from_batches(self.schema, self.batches)


def fit_batch(batch: "pa.RecordBatch", schema: "pa.Schema") -> "pa.RecordBatch":
    """Return a file's batch with the table's columns; columns that it lacks are NULL.

    Column names match in any case.
    """
    import pyarrow as pa

    places = {name.lower(): number for number, name in enumerate(batch.schema.names)}
    columns = []
    for field in schema:
        number = places.get(field.name.lower())
        found = pa.nulls(len(batch), field.type) if number is None else batch.column(number)
        if isinstance(found.type, pa.UuidType):
            found = pa.array([None if each is None else str(each) for each in found.to_pylist()])
        columns.append(found if found.type == field.type else found.cast(field.type))
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _up_to(batches: "Iterable[pa.RecordBatch]", limit: int) -> "Iterator[pa.RecordBatch]":
    for batch in batches:
        yield batch.slice(0, limit)
        limit -= len(batch)
        if limit <= 0:
            return


def _chosen(batch: "pa.RecordBatch", column: str, window: TimeWindow) -> "pa.RecordBatch":
    import pyarrow as pa
    from pyarrow import compute

    values = batch.column(batch.schema.get_field_index(column))
    if pa.types.is_timestamp(values.type) and values.type.tz:
        low, high = (pa.scalar(each, values.type) for each in (window.start, window.end))
        from_start = compute.greater_equal(values, low)
        return batch.filter(compute.and_(from_start, compute.less(values, high)))
    seconds, (start, end) = _seconds(values.type, window.zone, column), window.span
    inside = [each is not None and start <= seconds(each) < end for each in values.to_pylist()]
    return batch.filter(pa.array(inside, pa.bool_()))


def _seconds(kind: "pa.DataType", zone: ZoneInfo, column: str) -> "Callable[[Any], float]":
    """Return a function that converts a date, or a time without a zone, to epoch seconds.

    The first of two identical hours counts, and a time that clocks skip moves forward. Raises
    TerminalStepError for other types.
    """
    import pyarrow as pa

    if pa.types.is_date(kind):
        return lambda day: datetime.combine(day, time(), zone).timestamp()
    if pa.types.is_timestamp(kind):
        return lambda clock: float(clock.replace(tzinfo=zone).timestamp())
    raise TerminalStepError(f"window_column {column} is {kind}; it must be a timestamp or a date")
