"""The Spark resource. Imported when a run needs Spark, because it imports PySpark."""

from typing import Any

from dagster_pyspark import LazyPySparkResource
from pydantic import PrivateAttr

from logdriven_dagster.config import Project
from logdriven_dagster.engine import spark_session
from logdriven_dagster.engine.spark import dead_sessions as deaths


class ProjectSparkResource(LazyPySparkResource):
    """A `LazyPySparkResource` whose session is the one that the project configures."""

    _project: Project = PrivateAttr()
    _deaths: int = PrivateAttr(0)
    """How many Sparks had died before the session was made."""

    @classmethod
    def of(cls, project: Project) -> "ProjectSparkResource":
        """The resource of a project; no session is started yet."""
        config: dict[str, Any] = dict(project.config.spark.config)
        resource = cls(spark_config=config)
        resource._project = project
        return resource

    def _init_session(self) -> None:
        if self._spark_session is None or self._deaths != deaths.number():
            self._deaths = deaths.number()
            self._spark_session = spark_session(self._project)

    def close(self) -> None:
        """Stop the session, if one was started."""
        if self._spark_session is not None:
            self._spark_session.stop()
            self._spark_session = None
