"""Freshness notices: one when a table is late, and one when it is fresh again.

Recipients of failures receive a notice that a table is late; recipients of recoveries, that it is
fresh again. Notices follow from the log and the clock, so any tick and any run may send them.
"""

from collections.abc import Iterator, Mapping
from datetime import datetime

from logdriven_dagster.config.models.notifications import Occasion
from logdriven_dagster.config.models.tables import TableConfig
from logdriven_dagster.config.project import Project
from logdriven_dagster.execution.notifications.rules import Outbox
from logdriven_dagster.planning.freshness import (
    Freshness,
    Verdict,
    evaluate_freshness,
)
from logdriven_dagster.runlog import RunLog
from logdriven_dagster.runlog.history.logs import read_window_states
from logdriven_dagster.runlog.observed import freshness_notices
from logdriven_dagster.runlog.observed.freshness_notices import Standing
from logdriven_dagster.runlog.observed.notifications import Event

_EVENTS: Mapping[Verdict, Event]
_EVENTS = {Verdict.LATE: "late", Verdict.WARNING: "warning", Verdict.FRESH: "recovery"}
_OF_LATENESS: frozenset[Occasion] = frozenset(("failure", "always"))
_OF_FRESHNESS: frozenset[Occasion] = frozenset(("recovery", "always"))


def evaluate_tables(run_log: RunLog, project: Project, now: datetime) -> dict[str, Freshness]:
    """Return table → freshness, for the tables with `freshness` that are evaluated.

    If a project has no such table, the log is not read.
    """
    tables = [table for table in project.tables.values() if table.freshness is not None]
    if not tables:
        return {}
    logs = run_log.ask(lambda conn: read_window_states(conn, tables))
    found = {table.table: evaluate_freshness(table, logs[table.table], now) for table in tables}
    return {name: each for name, each in found.items() if each is not None}


def notify(outbox: Outbox, project: Project, found: Mapping[str, Freshness]) -> None:
    """Add new notices to the outbox, and send them. `project` has the settings in force."""
    standings = [
        item
        for name, each in found.items()
        for item in _standings(project, project.tables[name], each)
    ]
    if not standings:
        return
    run_log, owner = outbox.run_log, str(outbox.owner)
    news = run_log.ask(lambda conn: freshness_notices.find_changed(conn, standings))
    if not news:
        return  # the usual result of a tick, without a write transaction
    is_posted = run_log.write(lambda conn: freshness_notices.post(conn, news, owner))
    if is_posted:
        outbox.deliver()


def _standings(project: Project, table: TableConfig, found: Freshness) -> Iterator[Standing]:
    """Yield the freshness of a table for each recipient of its notices."""
    decisive = found.missing or found.expected
    if decisive is None:
        return
    wanted = _OF_FRESHNESS if found.verdict is Verdict.FRESH else _OF_LATENESS
    occasions: dict[str, set[Occasion]] = {}
    for rule in table.notify:
        for name in rule.to:
            if name in project.config.recipients:
                occasions.setdefault(name, set()).update(rule.on)
    instant = int(decisive.start.timestamp())
    for name, on in occasions.items():
        if on & (_OF_FRESHNESS | _OF_LATENESS):
            yield Standing(name, table.table, _EVENTS[found.verdict], instant, bool(on & wanted))
