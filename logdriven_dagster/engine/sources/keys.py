"""Key windows over an increasing key: their end, and reading one of them.

A window holds the keys after its start, up to and including its end. Source: Sharp ETL,
`incremental_type: auto_inc_id`, whose `data_range_end` is the greatest key that was read. Keys are
whole numbers of any length, in numeric or text columns.
"""

from decimal import Decimal
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from logdriven_dagster.config.models.tables import TableConfig
from logdriven_dagster.config.models.types.jdbc import JdbcSource
from logdriven_dagster.config.models.types.sources import Source
from logdriven_dagster.config.project import Project
from logdriven_dagster.engine.databases.connections import as_subquery, database
from logdriven_dagster.engine.queries.instants import literal
from logdriven_dagster.engine.queries.rendering import render_for_database
from logdriven_dagster.engine.spark import functions as sf
from logdriven_dagster.errors import TerminalStepError
from logdriven_dagster.model.runs import WindowRun
from logdriven_dagster.model.source_rows import SourceRows
from logdriven_dagster.model.windows import Slice

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from sqlalchemy import ColumnElement, FromClause
    from sqlalchemy.engine import Connection as SqlConnection

    from logdriven_dagster.config.connections import Connection

DIGITS = 38
"""The maximum digits of a decimal number, in Spark and in databases."""


def cut(table: TableConfig, window: Slice, first: int | None, last: int | None) -> tuple[str, bool]:
    """Return the end of a window, and True if the source has more.

    `first` is the least key after its low end, `last` the greatest key of all. Without new keys the
    window ends at its start. `window_size` counts from the first key, so that no window is spent on
    a gap.
    """
    low = int(window.low)
    if first is None or last is None:
        return window.low, False
    newest = max(last - table.lag, low)
    end = newest
    if table.window_size is not None:
        end = min(newest, max(first, low + 1) - 1 + table.window_size)
    return str(end), end < newest


def restart_note(table: TableConfig, source: Source, window: Slice, greatest: int | None) -> str:
    """Return a note if the source ends below keys that were read before; otherwise empty.

    `greatest` is the greatest key in the source. Raises TerminalStepError unless the table has
    `on_key_reset: report`. Before the first window with keys nothing was read.
    """
    low = int(window.low)
    if window.number == 0 or (greatest is not None and greatest >= low):
        return ""
    place = ", ".join(name for _, name in source.uses())
    holds = "the source has no keys" if greatest is None else f"the greatest key is {greatest}"
    found = f"key_column {source.key_column} of {place}: {holds}, but keys up to {low} were read"
    if table.on_key_reset == "report":
        return f"{found} before; only keys above {low} are read from now on"
    raise TerminalStepError(
        f"{found} before. The source was emptied, restored or replaced, or its "
        f"newest rows were deleted; nothing was read. Continue its keys above {low}; "
        "or load it as a new table with another name; or set on_key_reset: report in "
        f"the table to read only keys above {low}"
    )


def key_range(table: TableConfig, window: Slice) -> tuple[int, int]:
    """Return the keys to read: after the first number, up to and including the second."""
    return int(window.low) - table.overlap, int(window.high or window.low)


def keys_in_database(
    project: Project, run: WindowRun, source: JdbcSource, low: int
) -> tuple[int | None, int | None]:
    """Return the least key after `low`, and the greatest of all, by an index if there is one."""
    from sqlalchemy import func, select

    connection = project.connection(source.connection)
    with database(connection) as engine, engine.connect() as c:
        origin = _origin(source, run, connection)
        column = _column(source)
        sample = _any_key(c, origin, column)
        if _whole(sample, source) is None:
            return None, None
        key = _number(column) if isinstance(sample, str) else column
        query = (
            select(func.min(key), func.max(key))
            .select_from(origin)
            .where(key > _build_parameter(low))
        )
        first, last = c.execute(query).one()
        if last is None:
            last = c.scalar(select(func.max(key)).select_from(origin))
    return _whole(first, source), _whole(last, source)


def count_rows_in_database(
    project: Project, run: WindowRun, source: JdbcSource
) -> SourceRows | None:
    """Count the rows of a database source if some have no key; otherwise return None.

    An index on the key finds rows without one, as it finds the greatest key.
    """
    from sqlalchemy import case, func, select

    connection, table = project.connection(source.connection), project.table(run.table)
    with database(connection) as engine, engine.connect() as c:
        origin, column = _origin(source, run, connection), _column(source)
        count = select(func.count()).select_from(origin)
        if not (unplaced := int(c.scalar(count.where(column.is_(None))) or 0)):
            return None
        before, first = 0, table.default_start
        if isinstance(first, int):
            is_text = isinstance(_any_key(c, origin, column), str)
            key = _number(column) if is_text else column
            is_before = func.sum(case((key <= _build_parameter(first), 1), else_=0))
            before = int(c.scalar(select(is_before).select_from(origin)) or 0)
        total = int(c.scalar(count) or 0)
    step = table.sliced_step.step
    return SourceRows(run.table, step, total, unplaced=unplaced, before=before, after=0, future=0)


def _any_key(c: "SqlConnection", origin: "FromClause", column: "ColumnElement[Any]") -> Any:
    """Return a key of the source, which shows if all are text; None if there is none."""
    from sqlalchemy import select

    return c.scalar(select(column).select_from(origin).where(column.is_not(None)).limit(1))


def keys_in_frame(frame: "DataFrame", source: Source, low: int) -> "tuple[int | None, int | None]":
    """Return the least key after `low`, and the greatest from `low` on, of any other source."""
    key = numeric(frame, str(source.key_column))
    least = sf.min(sf.when(key > literal(low), key))
    row = frame.where(key >= literal(low)).agg(least, sf.max(key)).first()
    assert row is not None
    return _whole(row[0], source), _whole(row[1], source)


def greatest_in_frame(frame: "DataFrame", source: Source) -> int | None:
    """Return the greatest key of a source other than a database."""
    row = frame.agg(sf.max(numeric(frame, str(source.key_column)))).first()
    assert row is not None
    return _whole(row[0], source)


def numeric(frame: "DataFrame", name: str) -> "Column":
    """Return the key as a number; text is compared by its value, 9 before 10."""
    column = frame[name]
    if frame.schema[column_name(frame, name)].dataType.simpleString() == "string":
        return column.cast(f"decimal({DIGITS},0)")
    return column


def column_name(frame: "DataFrame", name: str) -> str:
    """Return the column's name as the frame spells it."""
    return next((known for known in frame.columns if known.lower() == name.lower()), name)


def lies_in_keys(frame: "DataFrame", source: Source, keys: tuple[int, int]) -> "Column":
    """Return a condition: the key is after the first number, and at most the second."""
    key, (low, high) = numeric(frame, str(source.key_column)), keys
    return (key > literal(low)) & (key <= literal(high))


def predicates(
    connection: "Connection", source: JdbcSource, keys: tuple[int, int], *, text: bool
) -> list[str]:
    """Return conditions in the database's SQL that divide a range of keys."""
    from sqlalchemy import create_mock_engine

    dialect = create_mock_engine(connection.url, lambda *_: None).dialect
    column = _column(source)
    key = _number(column) if text else column
    low, high = keys
    parts = max(min(source.partitions, high - low), 1)
    bounds = [low + (high - low) * n // parts for n in range(parts + 1)]
    return [
        str(
            ((key > first) & (key <= last)).compile(
                dialect=dialect, compile_kwargs={"literal_binds": True}
            )
        )
        for first, last in pairwise(bounds)
    ]


def _origin(source: JdbcSource, run: WindowRun, connection: "Connection") -> "FromClause":
    import sqlalchemy as sa

    if source.table is not None:
        schema, _, name = render_for_database(source.table, run, connection).rpartition(".")
        return sa.table(name, schema=schema or None)
    query = as_subquery(render_for_database(source.query or "", run, connection))
    # The query has no parameters.
    return sa.text(query.replace(":", "\\:")).columns().subquery("logdriven_source")


def _column(source: JdbcSource) -> "ColumnElement[Any]":
    import sqlalchemy as sa

    return sa.column(str(source.key_column))


def _number(column: "ColumnElement[Any]") -> "ColumnElement[Any]":
    import sqlalchemy as sa

    return sa.cast(column, sa.Numeric(DIGITS, 0))


def _build_parameter(number: int) -> Any:
    """Return a number as a parameter: an integer if it fits, since a decimal uses no index."""
    import sqlalchemy as sa

    fits = -(2**63) <= number < 2**63
    return number if fits else sa.literal(Decimal(number), sa.Numeric(DIGITS, 0))


def _whole(value: Any, source: Source) -> int | None:
    if value is None:
        return None
    try:
        number = int(value)
    except (TypeError, ValueError):
        number = None
    if number is None or (number != value and str(number) != str(value).lstrip("0+")):
        raise TerminalStepError(
            f"key_column {source.key_column} holds {value!r}; keys must be whole "
            "numbers; for times, use incremental_type time_window with a window_column"
        )
    return number
