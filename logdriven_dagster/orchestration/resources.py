"""The Spark resource, opened when first asked for."""

from typing import Any

from dagster import InitResourceContext, ResourceDefinition

from logdriven_dagster.config import Project


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
