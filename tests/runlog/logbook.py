"""One word for each thing that runners and operators do to a log."""

from sqlalchemy import text

from logdriven_dagster.model.attempts import (
    AttemptOutcome,
    Claim,
    Counts,
    Owner,
    Status,
    StepOutcome,
    Trigger,
)
from logdriven_dagster.model.windows import TimeWindow
from logdriven_dagster.runlog import RunLog
from logdriven_dagster.runlog.attempts.leases import ATTEMPTS
from logdriven_dagster.runlog.history import logs as history
from logdriven_dagster.runlog.homes import LogProject
from tests.builders import at, claimed, end_step, finish, table

ME = Owner("here", 10, 20, "run-1")


def open_log(url, project="project") -> RunLog:
    """The run log of a project that has no folder."""
    log = RunLog.open(url)
    log.enter(LogProject(project, "here", f"/{project}", None))
    return log


def request(
    window: TimeWindow,
    trigger=Trigger.PENDING,
    *,
    name="ods.t",
    owner=ME,
    now="2022-02-01",
    steps=("load",),
    **fields,
):
    values = (name, window, 1440, "time_window", "project", trigger, owner, at(now), steps)
    return Claim(*values, **fields)


def start(log, window, trigger=Trigger.PENDING, **fields):
    return log.write(lambda conn: claimed(conn, request(window, trigger, **fields)))


def end(log, attempt, status=Status.SUCCESS, error=None, rows=5, *, nothing=False):
    """`nothing`: as its runner says, nothing of it was published."""
    counts = Counts(rows, rows, rows, 0)
    outcome = StepOutcome(status, counts, "csv", "iceberg", "", error)

    def work(conn):
        ATTEMPTS.renew(conn, [attempt])
        end_step(conn, attempt.job_id, "load", outcome)
        ended = AttemptOutcome(status, "app-1", "a.csv", 0, published_nothing=nothing)
        finish(conn, attempt, ended)

    log.write(work)


def succeed(log, window, **fields):
    end(log, start(log, window, **fields))


def fail(log, window, error="broken", **fields):
    end(log, start(log, window, **fields), Status.FAILURE, error)


def fail_refresh(log, window, trigger=Trigger.REFRESH, **fields):
    """A repeat of a finished window fails before it publishes anything."""
    end(log, start(log, window, trigger, **fields), Status.FAILURE, "broken", nothing=True)


def table_log(log, *tables):
    tables = tables or (table(),)
    with log.read() as conn:
        logs = history.read_table_logs(conn, tables)
    return logs if len(tables) > 1 else logs[tables[0].table]


def rows(log, query):
    with log.read() as conn:
        return [dict(row._mapping) for row in conn.execute(text(query))]


def execute(log, statement):
    with log.begin() as conn:
        return conn.execute(text(statement)).rowcount


def expire(log):
    """Let every lease run out."""
    over = "UPDATE job_log SET lease_expires_at = '2000-01-01 00:00:00.000000'"
    return execute(log, f"{over} WHERE status = 'RUNNING'")


def set_clock(log, hours):
    """What a log looks like after the database's clock jumped: its instants have, the other way."""
    shift = {
        "sqlite": "strftime('%Y-%m-%d %H:%M:%f000', {}, '{} hours')",
        "postgresql": "{} + INTERVAL '{} hours'",
        "mysql": "{} + INTERVAL {} HOUR",
    }[log.engine.dialect.name.replace("mariadb", "mysql")]
    instants = {
        "job_log": ("heartbeat_at", "lease_expires_at", "job_start_time", "job_end_time"),
        "notification_log": ("due_time", "create_time"),
    }
    for name, columns in instants.items():
        changes = ", ".join(f"{column} = {shift.format(column, -hours)}" for column in columns)
        execute(log, f"UPDATE {name} SET {changes}")
