"""Arguments of `logdriven import-kettle`."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date, timedelta
from pathlib import Path

from logdriven_dagster.config.project import Project
from logdriven_dagster.plugins.importers.database.importing import as_date, as_wall_clock


@dataclass(frozen=True, slots=True)
class KettleRequest:
    """Arguments of `logdriven import-kettle`."""

    connection: str | None
    """Connection with the tables of the guide; None to read only the files."""
    today: date
    schema: str | None = None
    repository: Path | None = None
    layer: str = "kettle"
    default_start: str | None = None
    period: str | None = None
    connections: Mapping[str, str] = field(default_factory=dict)
    """Project connection for each Kettle connection with a different name."""

    def first_start(self, project: Project, table: str) -> object:
        """Return the `default_start` of a table: as requested, as its file has it, or yesterday."""
        if self.default_start is not None:
            return as_date(self.default_start)
        if table in project.tables:
            return as_wall_clock(project.tables[table].default_start)
        day = self.today - timedelta(days=1)
        return day.replace(day=min(day.day, 28))
