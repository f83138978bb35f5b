"""Runs that a DEPENDENT task waits for, as windows of the other workflow.

DolphinScheduler cuts a date value into hours or days, and needs a successful run scheduled in each
of them. Source: DolphinScheduler, DependentUtils and DependentDateUtils.
"""

from typing import Literal, TypeAlias

from logdriven_dagster.plugins.importers.dolphinscheduler.crontabs import Cadence

AwaitedWindow: TypeAlias = Literal["overlapping", "ended"]
"""Field `window` of `depends_on`."""

_LAST_DAYS = (
    *("lastMonday", "lastTuesday", "lastWednesday", "lastThursday"),
    *("lastFriday", "lastSaturday", "lastSunday"),
)
"""Days of the previous week, in the order of Python's weekdays."""


def find_awaited_window(date: str, own: Cadence, other: Cadence) -> AwaitedWindow | None:
    """Return the windows of `other` that are exactly the runs of a date value; None if none are.

    `own` is the cadence of the workflow that waits. A run processes the window before it, so the
    run of `today` has the window of yesterday.
    """
    if other.has_windows_of(own) and date in _list_same_run(own):
        return "overlapping"
    match date:
        case "last24Hours":  # yesterday 01:00 to today 00:00, each with the hour before it
            return "overlapping" if (own.period, other.period) == ("1 day", "1 hour") else None
        case "today":
            is_newest = own.is_within_a_day and other.period == "1 day"
        case "currentHour":
            is_newest = own.period.endswith(" min") and other.period == "1 hour"
        case "thisMonthBegin":
            is_newest = other.period == "1 month" and other.day == 1
        case _:
            is_newest = date in _LAST_DAYS and _is_last_week(_LAST_DAYS.index(date), own, other)
    return "ended" if is_newest else None


def is_previous_run(date: str, cadence: Cadence) -> bool:
    """Return True if a date value is the run before the own one, for a workflow of `cadence`."""
    return (date, cadence.period) in (("last1Days", "1 day"), ("last1Hour", "1 hour"))


def _list_same_run(cadence: Cadence) -> tuple[str, ...]:
    """Return the date values that contain only the run scheduled next to the own one.

    `thisWeek` and `thisMonth` need a run on each day until today, so they are one run on the first
    day alone.
    """
    match cadence.period.split():
        case [_, "min"]:
            return ()
        case [_, "hour" | "hours"]:
            return ("currentHour",)
        case [_, "week"]:
            return ("today", "thisWeek") if cadence.weekday == 0 else ("today",)
        case [_, "month"]:
            first = ("thisMonth", "thisMonthBegin")
            return ("today", *first) if cadence.day == 1 else ("today",)
        case _:
            return ("today",)


def _is_last_week(weekday: int, own: Cadence, other: Cadence) -> bool:
    """Return True if the newest weekly run is that of `weekday` in the previous calendar week."""
    if own.weekday is None or other.weekday is None:
        return False
    return other.weekday == weekday > own.weekday
