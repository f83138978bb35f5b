"""Resources: the run log and Spark, both opened when first asked for."""

from dataclasses import replace
from typing import Any

from dagster import (
    ConfigurableResource,
    DagsterRun,
    InitResourceContext,
    ResourceDefinition,
)

from logdriven_dagster.config import Project
from logdriven_dagster.execution import opening as local
from logdriven_dagster.execution.runner import Runner
from logdriven_dagster.runlog import RunLog

RUN_LOG, SPARK = "run_log", "spark"
"""Keys of the resources."""


class RunLogResource(ConfigurableResource):  # type: ignore[type-arg]
    """The run log of a project, and the runner that works by it.

    `url` replaces `run_log` of `logdriven.yaml`, for a code location that keeps its log elsewhere:
    `RunLogResource(url=EnvVar("RUN_LOG_URL"))`. `LOGDRIVEN_RUN_LOG` wins over both.
    """

    url: str | None = None

    def open(self, project: Project) -> RunLog:
        """Open the run log of the project."""
        return RunLog.open(self._logging_here(project).run_log_url)

    def open_runner(self, project: Project, run: DagsterRun, spark: Any) -> Runner:
        """A runner for one Dagster run; `spark` is the Spark resource, used at the first window."""
        return local.open_runner(
            self._logging_here(project),
            dagster_run_id=run.run_id,
            spark=lambda: spark.spark_session,
        )

    def _logging_here(self, project: Project) -> Project:
        if not self.url:
            return project
        return replace(project, config=project.config.model_copy(update={"run_log": self.url}))


def spark_resource(project: Project) -> ResourceDefinition:
    """The project's Spark session, as a `LazyPySparkResource` that can be closed.

    Any `LazyPySparkResource` that gives a classic session may take its place.
    The session outlives a run, so that runs of one process share it; `close()` stops it.
    """

    def open_resource(_context: InitResourceContext) -> Any:
        # dagster_pyspark imports PySpark, which loading definitions must not cost.
        from logdriven_dagster.orchestration.spark import ProjectSparkResource

        return ProjectSparkResource.of(project)

    return ResourceDefinition(open_resource, description="The project's Spark session.")
