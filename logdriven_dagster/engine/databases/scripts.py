"""Interruptible statements on a connection, and their results."""

import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from threading import Thread
from typing import TYPE_CHECKING, Any

from logdriven_dagster.config.connections import Connection
from logdriven_dagster.config.secrets import redact
from logdriven_dagster.config.sql.committing import find_script_mistake
from logdriven_dagster.engine.databases.connections import database
from logdriven_dagster.engine.failures import step_errors
from logdriven_dagster.engine.queries.data_values import Value
from logdriven_dagster.engine.spark.actions import finish
from logdriven_dagster.errors import TerminalStepError
from logdriven_dagster.model.upkeep import Upkept

if TYPE_CHECKING:
    from sqlalchemy import Connection as Transaction
    from sqlalchemy import Engine as Database
    from sqlalchemy import TextClause

SHOWN = 20
"""Result rows that the log shows."""

_BIND = re.compile(r"(?<![:\w\\]):(\w+)(?!:)")
"""Parameters in SQLAlchemy's syntax."""


def run_script(
    connection: Connection,
    statements: Sequence[str],
    values: Mapping[str, Value],
    *,
    transaction: bool = True,
) -> Upkept:
    """Execute statements in one transaction, or each by itself; return their output and row count.

    `values` are the parameters. Raises TerminalStepError, before the first statement, for
    statements that would end the transaction; any StepError rolls back. An exception that
    interrupts the call cancels the statement and propagates.
    """
    backend = connection.url.get_backend_name()
    if transaction and (mistake := find_script_mistake(statements, backend)):
        raise TerminalStepError(": ".join(filter(None, mistake)))
    with step_errors(), database(connection) as engine:
        script = _Script(engine, statements, values)
        thread = Thread(target=script.run, args=(transaction,), daemon=True)
        finish(thread, script.cancel)
        return script.outcome()


class _Script:
    """Statements in a separate thread, since drivers do not notice signals while they wait."""

    def __init__(
        self, engine: "Database", statements: Sequence[str], values: Mapping[str, Value]
    ) -> None:
        self._engine, self._statements, self._values = engine, statements, values
        self._driver: Any = None
        self._rows = 0
        self._texts: list[str] = []
        self._error: BaseException | None = None
        self._cancelled = False

    def run(self, transaction: bool) -> None:  # noqa: FBT001 - the argument of a thread
        try:
            engine = self._engine
            if not transaction:
                engine = engine.execution_options(isolation_level="AUTOCOMMIT")
            with engine.connect() as conn:
                self._driver = conn.connection.dbapi_connection
                self._execute(conn)
                if self._cancelled:
                    return  # no caller waits for it: rolled back
                conn.commit()
        except BaseException as error:  # raised again by `outcome`  # noqa: BLE001
            self._error = error

    def cancel(self) -> None:
        """Stop the running statement; it is called repeatedly until the thread has ended."""
        self._cancelled = True
        driver = self._driver
        with suppress(Exception):
            if hasattr(driver, "interrupt"):  # SQLite
                driver.interrupt()
            elif hasattr(driver, "cancel"):  # psycopg
                driver.cancel()
            elif hasattr(driver, "thread_id"):  # PyMySQL
                with self._engine.connect() as other:
                    other.exec_driver_sql(f"KILL QUERY {int(driver.thread_id())}")

    def outcome(self) -> Upkept:
        if self._error is not None:
            raise self._error
        return Upkept(redact("\n".join(self._texts)), self._rows)

    def _execute(self, conn: "Transaction") -> None:
        for statement in self._statements:
            result = conn.execute(statement_text(statement, self._values))
            if result.returns_rows:
                self._texts += [row_text(dict(row._mapping)) for row in result.fetchmany(SHOWN)]
            else:
                self._rows += max(result.rowcount, 0)


def statement_text(statement: str, values: Mapping[str, Value]) -> "TextClause":
    """Return the statement with its parameters; other colons are escaped."""
    from sqlalchemy import text

    escaped = _BIND.sub(lambda m: m[0] if m[1] in values else f"\\{m[0]}", statement)
    named = {m[1] for m in _BIND.finditer(statement)} & values.keys()
    return text(escaped).bindparams(**{name: values[name] for name in named})


def row_text(row: Mapping[str, Any]) -> str:
    """Return a result row as the log shows it."""
    return ", ".join(f"{name}={value}" for name, value in row.items())
