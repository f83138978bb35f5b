"""Connections as Spark's JDBC source needs them."""

from logdriven_dagster.config.connections import Connection

_WRITER = {
    "org.postgresql.Driver": {"reWriteBatchedInserts": "true"},
    "org.mariadb.jdbc.Driver": {"rewriteBatchedStatements": "true"},
}
"""Several rows per statement: four to five times as fast (DESIGN §9)."""


def reader_options(connection: Connection) -> dict[str, str]:
    """Spark's options to reach the database; the driver is always named."""
    return {"url": connection.jdbc_url, "driver": connection.driver, **connection.options}


def writer_options(connection: Connection) -> dict[str, str]:
    """Spark's options to load a table in large batches."""
    batches = {"batchsize": "10000", **_WRITER.get(connection.driver, {})}
    return batches | reader_options(connection)


def exact_integers(connection: Connection, table: str) -> dict[str, str]:
    """A `customSchema` that reads SQLite's INTEGER, which has 64 bits, as such.

    Spark would read 32 of them, and 3,000,000,000 as −1,294,967,296 (DESIGN §9).
    """
    if connection.url.get_backend_name() != "sqlite":
        return {}
    from sqlalchemy import Integer, create_engine, inspect

    engine = create_engine(connection.url)
    try:
        columns = inspect(engine).get_columns(table)
    finally:
        engine.dispose()
    wide = [column["name"] for column in columns if isinstance(column["type"], Integer)]
    return {"customSchema": ", ".join(f"`{name}` BIGINT" for name in wide)} if wide else {}
