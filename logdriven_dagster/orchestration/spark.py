"""The Spark resource. Imported when a run needs Spark, because it imports PySpark."""

from typing import Any

from dagster import ConfigurableResource
from pydantic import PrivateAttr

from logdriven_dagster.config.project import Project
from logdriven_dagster.engine import spark_session
from logdriven_dagster.engine.spark import dead_sessions as deaths
from logdriven_dagster.model.runs import ExpectedWork

try:
    from dagster_pyspark import LazyPySparkResource
except ModuleNotFoundError:  # it needs all of Spark, which `pyspark-client` does not include

    class LazyPySparkResource(ConfigurableResource):  # type: ignore[no-redef,type-arg]
        """The field of the resource of this name that ours has, too."""

        spark_config: dict[str, Any]


class ProjectSparkResource(LazyPySparkResource):
    """A `LazyPySparkResource` whose session is the one that the project configures."""

    _project: Project = PrivateAttr()
    _session: Any = PrivateAttr(None)
    _expected: ExpectedWork | None = PrivateAttr(None)
    _deaths: int = PrivateAttr(0)
    """The number of Spark processes that had died before the session was created."""

    @classmethod
    def from_project(cls, project: Project) -> "ProjectSparkResource":
        """Return the resource of a project; no session is started yet."""
        config: dict[str, Any] = dict(project.config.spark.config)
        resource = cls(spark_config=config)
        resource._project = project
        return resource

    def expect(self, work: ExpectedWork | None) -> None:
        """Start the session for this work, which must be all that its process does."""
        self._expected = work

    @property
    def spark_session(self) -> Any:
        """The session; started if there is none, or if Spark has died since."""
        if self._session is None or self._deaths != deaths.number():
            self._deaths = deaths.number()
            self._session = spark_session(self._project, self._expected)
        return self._session

    @property
    def spark_context(self) -> Any:
        """The Spark context of the session."""
        return self.spark_session.sparkContext

    def close(self) -> None:
        """Stop the session, if one was started."""
        if self._session is not None:
            self._session.stop()
            self._session = None
