"""Freshness: which tables are late, and telling it once, and once that they are fresh again.

Whoever is told of failures is told that a table is late; whoever is told of recoveries, that it is
fresh again. What is told follows from the log and the clock, so any tick and any run may look.
"""

from collections.abc import Collection, Iterator, Mapping
from datetime import datetime
from typing import TYPE_CHECKING

from sqlalchemy.engine import Connection

from logdriven_dagster.config import Project
from logdriven_dagster.config.models.notifications import Occasion
from logdriven_dagster.config.models.tables import TableConfig
from logdriven_dagster.config.secrets import redact
from logdriven_dagster.execution.notifications import wording as shown
from logdriven_dagster.model.logs import TableLog
from logdriven_dagster.model.windows import TimeWindow, instant
from logdriven_dagster.planning.freshness import (
    Freshness,
    Verdict,
    allowance,
    due,
    freshness,
    outcome,
)
from logdriven_dagster.runlog import RunLog
from logdriven_dagster.runlog.history.logs import standing
from logdriven_dagster.runlog.observed import freshness_notices
from logdriven_dagster.runlog.observed.freshness_notices import Standing
from logdriven_dagster.runlog.observed.notifications import Event, Notice

if TYPE_CHECKING:
    from logdriven_dagster.execution.notifications.rules import Outbox

_EVENTS: Mapping[Verdict, Event]
_EVENTS = {Verdict.LATE: "late", Verdict.WARNING: "warning", Verdict.FRESH: "recovery"}
_OF_LATENESS: frozenset[Occasion] = frozenset(("failure", "always"))
_OF_FRESHNESS: frozenset[Occasion] = frozenset(("recovery", "always"))


def judged(run_log: RunLog, project: Project, now: datetime) -> dict[str, Freshness]:
    """Table → how it stands against the clock, of those with `fresh` that are judged.

    Of a project without any, the log is not asked.
    """
    tables = [table for table in project.tables.values() if table.fresh is not None]
    if not tables:
        return {}
    logs = run_log.ask(lambda conn: standing(conn, tables))
    found = {table.table: freshness(table, logs[table.table], now) for table in tables}
    return {name: each for name, each in found.items() if each is not None}


def tell(outbox: "Outbox", project: Project, found: Mapping[str, Freshness]) -> None:
    """Put into the outbox what is new, and send it. `project` has the settings in force."""
    standings = [
        item
        for name, each in found.items()
        for item in _standings(project, project.tables[name], each)
    ]
    if not standings:
        return
    run_log, owner = outbox.run_log, str(outbox.owner)
    news = run_log.ask(lambda conn: freshness_notices.changed(conn, standings))
    if not news:
        return  # what many ticks find, without a transaction that writes
    told = run_log.write(lambda conn: freshness_notices.post(conn, news, owner))
    if told:
        outbox.deliver()


def _standings(project: Project, table: TableConfig, found: Freshness) -> Iterator[Standing]:
    """What each recipient of a table's notices should know of it."""
    decisive = found.missing or found.expected
    if decisive is None:
        return
    wanted = _OF_FRESHNESS if found.verdict is Verdict.FRESH else _OF_LATENESS
    occasions: dict[str, set[Occasion]] = {}
    for rule in table.notify:
        for name in rule.to:
            if name in project.config.recipients:
                occasions.setdefault(name, set()).update(rule.on)
    moment = int(decisive.start.timestamp())
    for name, on in occasions.items():
        if on & (_OF_FRESHNESS | _OF_LATENESS):
            yield Standing(name, table.table, _EVENTS[found.verdict], moment, bool(on & wanted))


def logs_of(conn: Connection, project: Project, notices: Collection[Notice]) -> dict[str, TableLog]:
    """The logs of the tables whose freshness some notices are about."""
    names = {notice.subject for notice in notices if notice.subject_type == "freshness"}
    tables = [project.tables[name] for name in sorted(names) if name in project.tables]
    return standing(conn, tables) if tables else {}


def words(project: Project, notice: Notice, log: TableLog | None) -> tuple[str, str]:
    """The window that a notice is about, and by when it should have been done."""
    table = project.tables.get(notice.subject)
    if table is None or log is None or table.fresh is None:
        return "", ""
    window = table.grid.window(table.grid.index(instant(notice.job_id)))
    if notice.event == "recovery":
        return _span(window), ""
    warn = table.fresh.warn if notice.event == "warning" else None
    until = due(window, warn or allowance(table)).astimezone(project.zone)
    what = redact(outcome(table, window, log))
    return _span(window), f"should have been done by {until:%Y-%m-%d %H:%M:%S}; {what}"


def _span(window: TimeWindow) -> str:
    return shown.window(
        {
            "incremental_type": "time_window",
            "data_range_start": window.range_start[:14],
            "data_range_end": (window.range_end or "")[:14],
        }
    )
