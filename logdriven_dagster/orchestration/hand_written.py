"""The table of a hand-written asset, derived from its partitions and metadata.

`@asset(io_manager_key="logdriven", partitions_def=…, metadata={"logdriven/target": {…}})`
"""

from collections.abc import Mapping
from typing import Any
from zoneinfo import ZoneInfo

from dagster import (
    PartitionsDefinition,
    TimeWindowPartitionsDefinition,
)
from pydantic import ValidationError

from logdriven_dagster.config.models.tables import TableConfig
from logdriven_dagster.config.project import Project
from logdriven_dagster.errors import UsageError
from logdriven_dagster.model.periods import Grid, Period, Unit
from logdriven_dagster.model.windows import convert_to_zone
from logdriven_dagster.orchestration.assets.partitions import partitions_of

TARGET = "logdriven/target"
"""Metadata: the target of the asset's rows, as a step's `target`; an Iceberg table by default."""

ORDERED = "logdriven/ordered"
"""Metadata: True if a window waits for all earlier ones, as in a configured table; False by
default, as for Dagster's own assets."""

_COMPARED = 12


def hand_written_table(
    project: Project,
    name: str,
    definition: PartitionsDefinition[str] | None,
    metadata: Mapping[str, Any],
) -> TableConfig:
    """Return the table whose windows are an asset's DataFrames.

    Raises UsageError, which names the missing settings.
    """
    if definition is None:
        raise UsageError(
            f"{name} has no partitions, but the run log records windows; set partitions_def"
        )
    grid = _grid(project, name, definition)
    try:
        return TableConfig.model_validate(
            {
                "table": name,
                "period": grid.period,
                "default_start": grid.origin.astimezone(grid.zone),
                "ordered": _value(metadata.get(ORDERED, False)),
                "steps": [
                    {
                        "step": "write",
                        "python": "hand_written:asset",
                        "target": _value(metadata.get(TARGET, {"type": "iceberg"})),
                    }
                ],
            },
            context={"zone": project.zone},
        )
    except ValidationError as error:
        problems = "; ".join(f"{item['loc'][-1]}: {item['msg']}" for item in error.errors())
        raise UsageError(f"{name}: its metadata {TARGET} cannot be used: {problems}") from None


def _value(given: Any) -> Any:
    """Unwrap a value of a definition's metadata."""
    return getattr(given, "value", given)


def _grid(project: Project, name: str, definition: PartitionsDefinition[str]) -> Grid:
    for table in project.tables.values():
        if not table.is_sliced and partitions_of(table.grid).definition == definition:
            return table.grid
    if not isinstance(definition, TimeWindowPartitionsDefinition):
        fix = "use time windows, or the partitions of a configured table"
        raise UsageError(f"{name}: its partitions are not time windows; {fix}")
    if definition.timezone != project.zone.key:
        fix = f"set timezone={project.zone.key!r} for its partitions"
        raise UsageError(f"{name}: its partitions are in {definition.timezone}; {fix}")
    grid = _fitting(definition, project.zone)
    if grid is None:
        fix = "use the partitions of a configured table"
        raise UsageError(
            f"{name}: no period matches the schedule {definition.cron_schedule!r}; {fix}"
        )
    return grid


def _fitting(definition: TimeWindowPartitionsDefinition, zone: ZoneInfo) -> Grid | None:
    """Return the grid with the same windows as the definition; None if no period makes it."""
    theirs = []
    instant = definition.start
    for _ in range(_COMPARED):
        window = definition.get_next_partition_window(instant, respect_bounds=False)
        if window is None:
            return None
        theirs.append((window.start.timestamp(), window.end.timestamp()))
        instant = window.end
    origin = convert_to_zone(theirs[0][0], zone)
    for period in _candidates(round((theirs[0][1] - theirs[0][0]) / 60)):
        grid = Grid(origin, period)
        ours = [grid.window(n) for n in range(_COMPARED)]
        if theirs == [window.span for window in ours]:
            return grid
    return None


def _candidates(minutes: int) -> list[Period]:
    """Return the periods that may be this long; days and months vary in length."""
    days, months = round(minutes / 1440), round(minutes / 43_200)
    candidates = [Period(months, Unit.MONTH)] if months else []
    candidates += [Period(days, Unit.DAY)] if days else []
    return [*candidates, Period.parse(minutes)]
