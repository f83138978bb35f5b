"""Planning of windows: pure functions of the tables, the run log and the current time."""

from logdriven_dagster.planning.agenda import Agenda
from logdriven_dagster.planning.conditions import MissingRange
from logdriven_dagster.planning.dependencies import (
    find_awaited_range,
    find_missing_dependencies,
    list_with_upstreams,
    read_ranges,
)
from logdriven_dagster.planning.freshness import Freshness, Verdict, evaluate_freshness
from logdriven_dagster.planning.pending import (
    find_due_end,
    find_unfinished_windows,
    find_watermark,
    get_next_due,
)
from logdriven_dagster.planning.plan import Plan, PlannedWindow, State, TablePlan, plan
from logdriven_dagster.planning.readiness import (
    Blocked,
    DependenciesMissing,
    EarlierUnfinished,
    NotApplying,
    NotDue,
    find_dependencies_missing,
    find_obstacle,
    find_obstacle_to_rerun,
    find_open_attempt,
    find_upstream_obstacle,
)
from logdriven_dagster.planning.reruns import find_last_seen, find_reruns
from logdriven_dagster.planning.stretches import find_stretch

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
    "evaluate_freshness",
    "find_awaited_range",
    "find_dependencies_missing",
    "find_due_end",
    "find_last_seen",
    "find_missing_dependencies",
    "find_obstacle",
    "find_obstacle_to_rerun",
    "find_open_attempt",
    "find_reruns",
    "find_stretch",
    "find_unfinished_windows",
    "find_upstream_obstacle",
    "find_watermark",
    "get_next_due",
    "list_with_upstreams",
    "plan",
    "read_ranges",
]
