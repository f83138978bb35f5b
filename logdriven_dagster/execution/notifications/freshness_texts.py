"""Texts of freshness notices: the late window, and its deadline."""

from collections.abc import Collection

from sqlalchemy.engine import Connection

from logdriven_dagster.config.project import Project
from logdriven_dagster.config.secrets import redact
from logdriven_dagster.execution.notifications import wording as shown
from logdriven_dagster.model.logs import TableLog
from logdriven_dagster.model.windows import TimeWindow, convert_to_instant
from logdriven_dagster.planning.freshness import describe_outcome, get_allowance, get_deadline
from logdriven_dagster.runlog.history.logs import read_window_states
from logdriven_dagster.runlog.observed.notifications import Notice


def logs_of(conn: Connection, project: Project, notices: Collection[Notice]) -> dict[str, TableLog]:
    """Return the logs of the tables that freshness notices refer to."""
    names = {notice.subject for notice in notices if notice.subject_type == "freshness"}
    tables = [project.tables[name] for name in sorted(names) if name in project.tables]
    return read_window_states(conn, tables) if tables else {}


def words(project: Project, notice: Notice, log: TableLog | None) -> tuple[str, str]:
    """Return the window of a notice, and a sentence with its deadline."""
    table = project.tables.get(notice.subject)
    if table is None or log is None or table.freshness is None:
        return "", ""
    window = table.grid.window(table.grid.index(convert_to_instant(notice.job_id)))
    if notice.event == "recovery":
        return _span(window), ""
    warn = table.freshness.warn if notice.event == "warning" else None
    until = get_deadline(window, warn or get_allowance(table)).astimezone(project.zone)
    what = redact(describe_outcome(table, window, log))
    return _span(window), f"should have finished by {until:%Y-%m-%d %H:%M:%S}; {what}"


def _span(window: TimeWindow) -> str:
    return shown.window(
        {
            "incremental_type": "time_window",
            "data_range_start": window.range_start[:14],
            "data_range_end": (window.range_end or "")[:14],
        }
    )
