"""The Spark resource, opened on first use."""

from typing import Any

from dagster import InitResourceContext, ResourceDefinition

from logdriven_dagster.config.project import Project


def spark_resource(project: Project) -> ResourceDefinition:
    """Return the project's Spark session, as a `LazyPySparkResource` that can be closed.

    Any `LazyPySparkResource` that returns a classic session may replace it. The session outlives a
    run, so that runs of one process share it; `close()` stops it.
    """

    def open_resource(_context: InitResourceContext) -> Any:
        # dagster_pyspark imports PySpark, which is too slow for loading definitions.
        from logdriven_dagster.orchestration.spark import ProjectSparkResource

        return ProjectSparkResource.from_project(project)

    return ResourceDefinition(open_resource, description="The project's Spark session.")
