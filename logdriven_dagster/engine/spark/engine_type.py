"""Base of the types of engines that run in a session of PySpark."""

from abc import abstractmethod
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeAlias

from logdriven_dagster.config.checking.engines import EngineContext, EngineType

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Watch: TypeAlias = Callable[[Any, Callable[[], bool]], None]
"""A function that records a session and whether its server lives; see `dead_sessions`."""


class SparkEngineType(EngineType):
    """Base of engines whose windows run in a session of PySpark."""

    engine = "logdriven_dagster.engine.window.engine:start_engine"

    @abstractmethod
    def session(self, context: EngineContext, watch: Watch) -> "SparkSession":
        """Return the session that all windows of this process share.

        `watch` records a new session on a server that can end before this process. Raises
        UsageError if a session cannot be created.
        """
