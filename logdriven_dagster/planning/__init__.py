"""Planning of windows: pure functions of the tables, the run log and the current time."""

from logdriven_dagster.planning.agenda import Agenda
from logdriven_dagster.planning.conditions import MissingRange
from logdriven_dagster.planning.dependencies import (
    awaited_range,
    missing_dependencies,
    read_ranges,
    with_upstreams,
)
from logdriven_dagster.planning.freshness import Freshness, Verdict, freshness
from logdriven_dagster.planning.pending import due_end, next_due, unfinished_windows, watermark
from logdriven_dagster.planning.plan import Plan, PlannedWindow, State, TablePlan, plan
from logdriven_dagster.planning.readiness import (
    Blocked,
    DependenciesMissing,
    EarlierUnfinished,
    NotApplying,
    NotDue,
    dependencies_missing,
    obstacle,
    obstacle_to_rerun,
    open_attempt,
    upstream_obstacle,
)
from logdriven_dagster.planning.reruns import last_seen, reruns
from logdriven_dagster.planning.stretches import stretch

__all__ = [
    "Agenda",
    "Blocked",
    "DependenciesMissing",
    "EarlierUnfinished",
    "Freshness",
    "MissingRange",
    "NotApplying",
    "NotDue",
    "Plan",
    "PlannedWindow",
    "State",
    "TablePlan",
    "Verdict",
    "awaited_range",
    "dependencies_missing",
    "due_end",
    "freshness",
    "last_seen",
    "missing_dependencies",
    "next_due",
    "obstacle",
    "obstacle_to_rerun",
    "open_attempt",
    "plan",
    "read_ranges",
    "reruns",
    "stretch",
    "unfinished_windows",
    "upstream_obstacle",
    "watermark",
    "with_upstreams",
]
