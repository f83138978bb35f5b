"""The start of engines, and the names that engines of packages import (docs/engines.md).

`config.checking.engines.EngineType` is the part of an engine that checks of a project need; it
names the class or function that starts the engine.
"""

from pkgutil import resolve_name
from typing import TYPE_CHECKING

from logdriven_dagster.config.checking.engines import EngineContext, EngineType
from logdriven_dagster.errors import UsageError
from logdriven_dagster.execution.window.sessions import Engine, WindowSession

if TYPE_CHECKING:
    from logdriven_dagster.engine import Engine as SparkEngine

__all__ = [
    "Engine",
    "EngineContext",
    "EngineType",
    "WindowSession",
    "spark_engine",
    "start_engine",
]


def spark_engine(engine: Engine) -> "SparkEngine":
    """Return an engine that runs in a Spark session. Raises UsageError for any other engine."""
    from logdriven_dagster.engine import Engine as SparkEngine

    if not isinstance(engine, SparkEngine):
        raise UsageError(
            f"this needs a Spark session, which {engine.name} does not have; run the project on "
            "Spark (spark.engine: spark)"
        )
    return engine


def start_engine(context: EngineContext) -> Engine:
    """Start an engine. Raises UsageError, or any error of a package, if it does not start."""
    engine: Engine = resolve_name(context.kind.engine)(context)
    return engine
