"""The statements of maintenance jobs, on a connection or in Spark, and what they did.

`${name}` and `:name` stand for the variables of the job, `${env:NAME}` for a secret. Source:
Kettle, maintenance transformations ("Execute SQL script").
"""

import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from threading import Thread
from typing import TYPE_CHECKING, Any

from logdriven_dagster.config.connections import Connection
from logdriven_dagster.config.project import Project
from logdriven_dagster.config.references import (
    UnreadableSqlError,
    replace_tables,
    table_references,
)
from logdriven_dagster.config.secrets import redact, resolve_secret
from logdriven_dagster.engine.actions import Action, finish
from logdriven_dagster.engine.connections import database
from logdriven_dagster.engine.failures import step_errors
from logdriven_dagster.engine.metrics import query_counts
from logdriven_dagster.engine.rendering import PARAMETER, Value, substitute
from logdriven_dagster.engine.session import fresh_session
from logdriven_dagster.engine.window import Engine
from logdriven_dagster.errors import TerminalStepError
from logdriven_dagster.model.upkeep import Upkept

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from sqlalchemy import Connection as Transaction
    from sqlalchemy import Engine as Database
    from sqlalchemy import TextClause

_SHOWN = 20
"""Rows of a result that the log shows."""

_BIND = re.compile(r"(?<![:\w\\]):(\w+)(?!:)")
"""What SQLAlchemy takes for a parameter."""


def run_on_connection(
    connection: Connection,
    statements: Sequence[str],
    values: Mapping[str, Value],
    *,
    transaction: bool = True,
) -> Upkept:
    """Execute statements in one transaction, or each by itself; a StepError rolls back.

    Interrupted by any exception, the statement is cancelled and the exception goes on.
    """
    with step_errors(), database(connection) as engine:
        script = _Script(engine, [_rendered(text, values) for text in statements], values)
        thread = Thread(target=script.run, args=(transaction,), daemon=True)
        finish(thread, script.cancel)
        return script.outcome()


class _Script:
    """Statements in a thread of their own, since drivers do not notice signals while they wait."""

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
                    return  # nobody waits for it: rolled back
                conn.commit()
        except BaseException as error:  # raised again by `outcome`  # noqa: BLE001
            self._error = error

    def cancel(self) -> None:
        """Stop the statement that is running; called again until the thread has ended."""
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
            result = conn.execute(_text(statement, self._values))
            if result.returns_rows:
                self._texts += [_row_text(dict(row._mapping)) for row in result.fetchmany(_SHOWN)]
            else:
                self._rows += max(result.rowcount, 0)


def run_in_spark(
    engine: Engine,
    project: Project,
    statements: Sequence[str],
    values: Mapping[str, Value],
    label: str,
) -> Upkept:
    """Execute statements in a Spark session of their own; the project's tables can be read."""
    with step_errors():
        rows, texts = 0, list[str]()
        with fresh_session(engine.spark, project) as spark:
            for statement in statements:
                text = _rendered(statement, values)
                text = _opened(engine, spark, text, list(project.tables))
                action = Action(spark, label, _query(spark, text, values))
                texts += [_row_text(row.asDict()) for row in action.run()]
                rows += query_counts(spark, action.mark).written or 0
        return Upkept(redact("\n".join(texts)), rows)


def _query(
    spark: "SparkSession", text: str, values: Mapping[str, Value]
) -> Callable[[], list[Any]]:
    named = {name: values[name] for name in set(PARAMETER.findall(text)) & values.keys()}

    def work() -> list[Any]:
        # Commands run at once, queries when their rows are asked for.
        frame = spark.sql(text, args=named) if named else spark.sql(text)
        return list(frame.take(_SHOWN)) if frame.columns else []

    return work


def _opened(engine: Engine, spark: "SparkSession", sql: str, tables: Sequence[str]) -> str:
    """The statement reading views of the configured tables that it mentions."""
    plain = sql.lower().replace("`", "")
    if not any(name.lower() in plain for name in tables):
        return sql
    try:
        mentioned = {name.lower() for name in table_references(sql)}
        names = [name for name in tables if name.lower() in mentioned]
        text = replace_tables(sql, {name: name for name in names})
    except UnreadableSqlError:
        return sql  # what only Spark understands names only what Spark knows
    for name in names:
        engine.read(name, session=spark).createOrReplaceTempView(f"`{name}`")
    return text


def _rendered(text: str, values: Mapping[str, Value]) -> str:
    text = substitute(text, {name: str(value) for name, value in values.items()})
    try:
        return resolve_secret(text)
    except KeyError as missing:
        problem = f"the environment variable {missing.args[0]} is not set"
        raise TerminalStepError(problem) from None


def _text(statement: str, values: Mapping[str, Value]) -> "TextClause":
    """The statement with its parameters; other colons are meant as they stand."""
    from sqlalchemy import text

    escaped = _BIND.sub(lambda m: m[0] if m[1] in values else f"\\{m[0]}", statement)
    named = {m[1] for m in _BIND.finditer(statement)} & values.keys()
    return text(escaped).bindparams(**{name: values[name] for name in named})


def _row_text(row: Mapping[str, Any]) -> str:
    return ", ".join(f"{name}={value}" for name, value in row.items())
