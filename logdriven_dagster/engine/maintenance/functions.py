"""Python functions of maintenance jobs, called by parameter name."""

import inspect
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from logdriven_dagster.config.secrets import redact
from logdriven_dagster.engine.failures import step_errors
from logdriven_dagster.engine.queries.transforms import arguments, load_function
from logdriven_dagster.engine.spark.actions import run_action
from logdriven_dagster.errors import TerminalStepError
from logdriven_dagster.model.upkeep import Upkept

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def run_function(
    reference: str,
    folder: Path,
    known: Mapping[str, Callable[[], Any]],
    session: "Callable[[], SparkSession]",
    label: str,
) -> Upkept:
    """Call a function and return its result: a row count, a text, an `Upkept` or None.

    `known` maps parameters to functions that create their values. If the function has a parameter
    `spark`, `session` starts Spark, and its jobs are cancelled when the call is interrupted; a
    timeout cannot stop other code. Raises StepError if the function fails or exits.
    """
    with step_errors():
        function = load_function(reference, folder)
        try:
            if "spark" not in inspect.signature(function).parameters:
                return _as_upkept(function(**arguments(reference, function, known)))
            spark = session()
            given = arguments(reference, function, {**known, "spark": lambda: spark})
            return _as_upkept(run_action(spark, label, lambda: function(**given)))
        except SystemExit as left:
            problem = f"python: {reference} called sys.exit({left.code!r})"
            raise TerminalStepError(problem) from None


def _as_upkept(result: Any) -> Upkept:
    match result:
        case Upkept():
            return result
        case bool():
            return Upkept(str(result))
        case int():
            return Upkept(rows=result)
        case str():
            return Upkept(redact(result))
        case _:
            return Upkept()
