"""Checks: queries over staged rows that find violations before these are published."""

from typing import TYPE_CHECKING, Any

from logdriven_dagster.config.models.steps import CheckConfig
from logdriven_dagster.engine.queries.views import Views
from logdriven_dagster.engine.spark.actions import run_action
from logdriven_dagster.errors import TerminalStepError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_EXAMPLES = 3


def refuse_violations(spark: "SparkSession", views: Views, check: CheckConfig, label: str) -> None:
    """Run a check's query and raise TerminalStepError if it finds rows.

    The error has their number and the first few. `views` resolves the tables of the query, `label`
    describes the Spark jobs.
    """
    frame = views.query(check.sql)
    label = f"{label} check {check.check}"
    first = run_action(spark, label, lambda: frame.take(_EXAMPLES + 1))
    if not first:
        return
    number = len(first)
    if number > _EXAMPLES:
        number = run_action(spark, label, frame.count)
    shown = "\n".join(f"  {_row_text(row)}" for row in first[:_EXAMPLES])
    rows = "1 violation" if number == 1 else f"{number} violations"
    raise TerminalStepError(f"check {check.check}: {rows}, such as\n{shown}")


def _row_text(row: Any) -> str:
    return ", ".join(f"{name}={value}" for name, value in row.asDict().items())
