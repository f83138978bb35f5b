"""The context of planning: the tables, their logs and the data time."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from logdriven_dagster.config.models.tables import TableConfig
from logdriven_dagster.model.logs import TableLog


@dataclass(frozen=True, slots=True)
class PlanningContext:
    """The state by which windows are planned and judged, at one point of data time."""

    tables: Mapping[str, TableConfig]
    """All tables of the project by name."""
    logs: Mapping[str, TableLog]
    """The logs of the tables in question and of their upstreams; a missing one is empty."""
    now: datetime

    def get_log(self, name: str) -> TableLog:
        """Return the log of a table or asset."""
        return self.logs.get(name, TableLog())
