"""SQL over Arrow batches by DuckDB, without access to files or network."""

from typing import TYPE_CHECKING, Any
from zoneinfo import ZoneInfo

from logdriven_dagster.engine.arrow.rows import ArrowRows
from logdriven_dagster.errors import TerminalStepError, UsageError

if TYPE_CHECKING:
    import pyarrow as pa

_ROWS = "logdriven_rows"
_CLOSED = (
    "SET python_enable_replacements = false",
    "SET enable_external_access = false",
    "SET lock_configuration = true",
)


def duckdb() -> Any:
    """Import and return the package; raise UsageError if it is not installed."""
    try:
        import duckdb as found
    except ImportError:
        raise UsageError(
            "a query needs the package duckdb; run `pip install 'logdriven_dagster[duckdb]'`"
        ) from None
    return found


def query(
    package: Any, rows: ArrowRows, name: str, sql: str, *, zone: ZoneInfo, limit: int
) -> "pa.Table":
    """Return the first rows of a query's result, with the rows as a table called `name`.

    `package` is DuckDB. Raises TerminalStepError if it cannot run the query.
    """
    import pyarrow as pa

    with package.connect(":memory:") as connection:
        try:
            connection.execute(f"SET TimeZone = '{zone.key}'")
            for statement in _CLOSED:
                connection.execute(statement)
            connection.register(_ROWS, rows.reader())
            for statement in _build_views(name):
                connection.execute(statement)
            found = connection.sql(sql)
            if found is not None:
                return pa.RecordBatchReader.from_stream(found.limit(limit)).read_all()
            problem = "it is not a query"
        except package.Error as error:
            problem = str(error).strip()
    # Outside of the block with DuckDB's error, which would keep its connection alive.
    raise TerminalStepError(f"the query cannot run: {problem}")


def _build_views(name: str) -> list[str]:
    """Return statements that make the rows available under a dotted name and its last part."""
    *place, last = [f'"{part}"' for part in name.split(".")]
    views = [last, f"{'.'.join(place[-2:])}.{last}"] if place else [last]
    made = [f"ATTACH ':memory:' AS {place[-2]}"] if len(place) > 1 else []
    schema = ".".join(place[-2:])
    made += [f"CREATE SCHEMA IF NOT EXISTS {schema}"] if place else []
    return made + [f"CREATE VIEW {view} AS FROM temp.{_ROWS}" for view in views]
