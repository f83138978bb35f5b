"""What runs next: pure functions of the tables, the run log and `now`."""

from logdriven_dagster.planning.conditions import Missing
from logdriven_dagster.planning.dependencies import (
    awaited_range,
    missing_dependencies,
    read_range,
)
from logdriven_dagster.planning.pending import due_end, unfinished_windows, watermark
from logdriven_dagster.planning.plan import Plan, PlannedWindow, State, TablePlan, plan
from logdriven_dagster.planning.readiness import (
    Blocked,
    DependenciesMissing,
    EarlierUnfinished,
    NotApplying,
    NotDue,
    dependencies_missing,
    obstacle,
    upstream_obstacle,
)
from logdriven_dagster.planning.stretches import stretch

__all__ = [
    "Blocked",
    "DependenciesMissing",
    "EarlierUnfinished",
    "Missing",
    "NotApplying",
    "NotDue",
    "Plan",
    "PlannedWindow",
    "State",
    "TablePlan",
    "awaited_range",
    "dependencies_missing",
    "due_end",
    "missing_dependencies",
    "obstacle",
    "plan",
    "read_range",
    "stretch",
    "unfinished_windows",
    "upstream_obstacle",
    "watermark",
]
