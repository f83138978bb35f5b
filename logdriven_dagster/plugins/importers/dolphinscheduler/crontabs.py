"""Quartz crontabs of DolphinScheduler as periods of windows.

A run at the scheduled time T processes the window that ends at the last boundary of the period
before T; the time from there to T is the `delay` of the table.
"""

import re
from dataclasses import dataclass
from datetime import date, timedelta

from logdriven_dagster.plugins.importers.drafts import UntranslatableError

_ANY = ("*", "?")
_EACH = (*_ANY, "1/1", "*/1")
_DAYS = ("SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT")
"""Days of the week in the order of Quartz: Sunday is 1."""


@dataclass(frozen=True, slots=True)
class Cadence:
    """The period of a workflow, and the schedule of its job."""

    period: str
    delay: int = 0
    """Minutes from the end of a window to its scheduled time."""
    cron: str | None = None
    """Crontab with five fields."""
    weekday: int | None = None
    """Day on which weeks begin; Monday is 0."""
    day: int = 1
    """Day on which months begin."""

    @property
    def is_within_a_day(self) -> bool:
        """True if a window is shorter than a day."""
        return self.period.split()[1] in ("min", "hour", "hours")

    def has_windows_of(self, other: "Cadence") -> bool:
        """Return True if the windows of two cadences have the same bounds."""
        own, theirs = ((each.period, each.weekday, each.day) for each in (self, other))
        return own == theirs

    def first_day(self, today: date) -> date:
        """Return a day before `today` on which a window of the period begins."""
        start = today - timedelta(days=1)
        if self.period == "1 month":
            back = start.replace(day=self.day)
            return (
                back
                if back <= start
                else (back.replace(day=1) - timedelta(1)).replace(day=self.day)
            )
        if self.weekday is not None:
            return start - timedelta(days=(start.weekday() - self.weekday) % 7)
        return start


def read_crontab(crontab: str) -> Cadence:
    """Return the cadence of a Quartz crontab.

    Raises UntranslatableError for a crontab whose runs are not one period apart.
    """
    fields = crontab.upper().split()
    if len(fields) not in (6, 7):
        raise UntranslatableError(f"crontab {crontab!r}: it must have six or seven fields")
    second, minute, hour, day, month, weekday, *years = fields
    if second not in ("0", "00"):
        raise _irregular(crontab, "it starts at other seconds than 0")
    if not {*years} <= {*_ANY} or month not in _EACH:
        raise _irregular(crontab, "it does not run in all months and years")
    every_day = day in _EACH and weekday in _EACH
    if every_day and (found := _within_a_day(minute, hour)) is not None:
        return found
    if not _is_number(minute, 59) or not _is_number(hour, 23):
        raise _irregular(crontab, "it runs at several times of a day, which are not one step apart")
    at, delay = f"{int(minute)} {int(hour)}", int(hour) * 60 + int(minute)
    if every_day:
        return Cadence("1 day", delay, f"{at} * * *")
    if day in _EACH and (on := _weekday(weekday)) is not None:
        return Cadence("1 week", delay, f"{at} * * {on}", weekday=(on - 1) % 7)
    if weekday in _ANY and _is_number(day, 28) and int(day) > 0:
        return Cadence("1 month", delay, f"{at} {int(day)} * *", day=int(day))
    raise _irregular(crontab, "it runs on several days of a week or a month")


def _within_a_day(minute: str, hour: str) -> Cadence | None:
    """Return the cadence of minutes and hours that are one step apart, or None."""
    if (step := _step(minute, 60)) and hour == "*":
        return Cadence(_period(step, "min"), cron=f"{_cron_step(step)} * * * *")
    if _is_number(minute, 59) and (step := _step(hour, 24)):
        at = int(minute)
        return Cadence(_period(step, "hour"), at, f"{at} {_cron_step(step)} * * *")
    return None


def _irregular(crontab: str, reason: str) -> UntranslatableError:
    return UntranslatableError(
        f"crontab {crontab!r}: {reason}, so its runs are not windows of one period; set period, "
        "default_start and delay of the tables"
    )


def _step(text: str, size: int) -> int | None:
    """Return n of `*`, `*/n` and `0/n` if n divides the hour or the day."""
    if text == "*":
        return 1
    found = re.fullmatch(r"(?:\*|00?)/([0-9]{1,2})", text)
    step = int(found[1]) if found else 0
    return step if step and size % step == 0 else None


def _cron_step(step: int) -> str:
    return "*" if step == 1 else f"*/{step}"


def _period(count: int, unit: str) -> str:
    plural = "s" if unit == "hour" and count > 1 else ""
    return f"{count} {unit}{plural}"


def _is_number(text: str, most: int) -> bool:
    return re.fullmatch(r"[0-9]{1,2}", text) is not None and int(text) <= most


def _weekday(text: str) -> int | None:
    """Return the only day of the week, with Sunday as 0, or None."""
    if text in _DAYS:
        return _DAYS.index(text)
    return int(text) - 1 if re.fullmatch(r"[1-7]", text) else None


_UTC = frozenset({"UTC", "Etc/UTC", "GMT", "Etc/GMT", "Z", "Etc/UCT", "UCT", "Universal"})


def same_zone(zone: str, ours: str) -> bool:
    """Return True if a schedule's time zone is the project's; UTC has several names."""
    return zone == ours or {zone, ours} <= _UTC
