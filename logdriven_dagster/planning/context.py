"""The context of planning: the tables, their logs and the data time."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import TypeAlias

from logdriven_dagster.config.models.tables import TableConfig
from logdriven_dagster.model.logs import TableLog
from logdriven_dagster.model.windows import TimeWindow

DescribeMissing: TypeAlias = Callable[[TableConfig, TimeWindow], str | None]
"""A function that describes the files that a window of a table waits for; None if there are none.

It returns the same for the same window while a plan is made.
"""


def describe_none(_table: TableConfig, _window: TimeWindow) -> str | None:
    """Return None: no window waits for files."""
    return None


@dataclass(frozen=True, slots=True)
class PlanningContext:
    """The state by which windows are planned and judged, at one point of data time."""

    tables: Mapping[str, TableConfig]
    """All tables of the project by name."""
    logs: Mapping[str, TableLog]
    """The logs of the tables in question and of their upstreams; a missing one is empty."""
    now: datetime
    describe_missing: DescribeMissing = describe_none

    def get_log(self, name: str) -> TableLog:
        """Return the log of a table or asset."""
        return self.logs.get(name, TableLog())
