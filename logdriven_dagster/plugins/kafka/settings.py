"""Settings of librdkafka, which a connection of the project holds."""

from logdriven_dagster.config.project import Project
from logdriven_dagster.engine.spark.settings import option_text


def client_settings(project: Project, connection: str) -> dict[str, str]:
    """Return the settings of a connection, with their secrets from the environment.

    Raises UsageError, which names the missing variable.
    """
    given = project.connection_settings(connection)["kafka"]
    return {name: option_text(value) for name, value in given.items()}
