"""Statements of maintenance jobs, on a connection or in Spark, and their results.

`${name}` and `:name` are the variables of the job, `${env:NAME}` is a secret. Source: Kettle,
maintenance transformations ("Execute SQL script").
"""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from logdriven_dagster.config.connections import Connection
from logdriven_dagster.config.project import Project
from logdriven_dagster.config.secrets import redact
from logdriven_dagster.config.sql.references import (
    UnreadableSqlError,
    find_table_references,
    replace_tables,
)
from logdriven_dagster.engine.databases.scripts import SHOWN, row_text, run_script
from logdriven_dagster.engine.failures import step_errors
from logdriven_dagster.engine.queries.data_values import Value
from logdriven_dagster.engine.queries.rendering import PARAMETER, substitute
from logdriven_dagster.engine.spark.actions import Action, query_counts
from logdriven_dagster.engine.spark.modes import mode_of
from logdriven_dagster.engine.spark.session import fresh_session
from logdriven_dagster.engine.window.engine import Engine
from logdriven_dagster.model.upkeep import Upkept

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def run_on_connection(
    connection: Connection,
    statements: Sequence[str],
    values: Mapping[str, Value],
    *,
    transaction: bool = True,
) -> Upkept:
    """Execute statements in one `transaction`, or each by itself; see `run_script`.

    `values` are the job's variables. Returns the output and the number of changed rows. Raises
    StepError if a statement fails.
    """
    with step_errors():
        texts = [_render(text, values) for text in statements]
    return run_script(connection, texts, values, transaction=transaction)


def run_in_spark(
    engine: Engine,
    project: Project,
    statements: Sequence[str],
    values: Mapping[str, Value],
    label: str,
) -> Upkept:
    """Execute statements in a new Spark session, in which the project's tables can be read.

    `values` are the job's variables, `label` describes the Spark jobs. Returns the output of
    queries and the number of written rows. Raises StepError if a statement fails.
    """
    with step_errors():
        rows, texts = 0, list[str]()
        with fresh_session(engine.spark, project) as spark:
            for statement in statements:
                text = _render(statement, values)
                text = _replace_with_views(engine, spark, text, list(project.tables))
                action = Action(spark, label, _query(spark, text, values))
                texts += [row_text(row.asDict()) for row in action.run()]
                rows += query_counts(spark, action.mark).written or 0
        return Upkept(redact("\n".join(texts)), rows)


def _query(
    spark: "SparkSession", text: str, values: Mapping[str, Value]
) -> Callable[[], list[Any]]:
    named = {name: values[name] for name in set(PARAMETER.findall(text)) & values.keys()}

    def work() -> list[Any]:
        # Commands run immediately, queries when their rows are fetched.
        frame = spark.sql(text, args=named) if named else spark.sql(text)
        return list(frame.take(SHOWN)) if frame.columns else []

    return work


def _replace_with_views(
    engine: Engine, spark: "SparkSession", sql: str, tables: Sequence[str]
) -> str:
    """Return the statement with views in place of the configured tables that it reads."""
    plain = sql.lower().replace("`", "")
    if not any(name.lower() in plain for name in tables):
        return sql
    try:
        mentioned = {name.lower() for name in find_table_references(sql)}
        names = [name for name in tables if name.lower() in mentioned]
        text = replace_tables(sql, {name: name for name in names})
    except UnreadableSqlError:
        return sql  # SQL that only Spark parses names only Spark's own tables
    for name in names:
        mode_of(spark).name_frame(engine.read(name, session=spark), name)
    return text


def _render(text: str, values: Mapping[str, Value]) -> str:
    return substitute(text, {name: str(value) for name, value in values.items()})
