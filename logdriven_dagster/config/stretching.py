"""Whether adjoining windows of a table may run in one pass, and why not."""

from logdriven_dagster.config.models import TableConfig
from logdriven_dagster.config.project import Project


def stretch_obstacle(project: Project, table: TableConfig) -> str | None:
    """What keeps the windows of a table apart; None: they may run in one pass."""
    return None
