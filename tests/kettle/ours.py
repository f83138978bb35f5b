"""The same state in our configuration and run log, and what our plan says of it."""

from pathlib import Path

from sqlalchemy import Connection

from logdriven_dagster.config import Project
from logdriven_dagster.config.derived.processes import build_processes
from logdriven_dagster.config.derived.selection import select_tables
from logdriven_dagster.config.models.jobs import StandardJob
from logdriven_dagster.config.models.project import ProjectConfig
from logdriven_dagster.errors import LogdrivenError
from logdriven_dagster.execution.window.claiming import ClaimTransaction
from logdriven_dagster.execution.window.orders import Order
from logdriven_dagster.execution.window.versions import VersionToRun
from logdriven_dagster.model.attempts import (
    AttemptOutcome,
    Counts,
    Status,
    StepOutcome,
    Trigger,
)
from logdriven_dagster.model.definitions import Home
from logdriven_dagster.planning.plan import Plan, plan
from logdriven_dagster.planning.plan import State as PlanState
from logdriven_dagster.runlog import homes
from logdriven_dagster.runlog.attempts import claiming
from logdriven_dagster.runlog.history import logs as history
from tests.builders import claimed, day, end_step, finish, table
from tests.kettle.states import JOB, NOW, Run, State
from tests.runlog.logbook import ME, request

_STATUS = {"Completed": Status.SUCCESS, "Failed": Status.FAILURE}


def project_of(state: State) -> Project:
    """Daily tables that load what there is, as Kettle's do: an older day is not made up for."""
    tables = {
        name: table(
            name,
            catch_up="latest_only",
            on_upstream_refresh="ignore",
            enabled=item.enabled,
            depends_on=[
                {"table": upstream, "managed": is_etl}
                for upstream, is_etl in item.upstreams.items()
            ],
        )
        for name, item in state.items()
    }
    job = StandardJob(job=JOB, tables=tuple(name for name, item in state.items() if item.in_job))
    files = {name: Path("tables", f"{name}.yaml") for name in tables}
    return Project(Path(), ProjectConfig(project="kettle"), tables, {JOB: job}, files)


def write(conn: Connection, state: State) -> None:
    """The attempts of a state, in the order in which they began."""
    runs = [(run.begin, name, run) for name, item in state.items() for run in item.runs]
    for _, name, run in sorted(runs, key=lambda item: item[:2]):
        attempt(conn, name, run)


def attempt(conn: Connection, name: str, run: Run) -> None:
    """One attempt; that of today passes over an unfinished yesterday, as `latest_only` does."""
    wanted = request(run.window, name=name)
    if run.is_today:
        claiming.skip(conn, [request(day(1), name=name)])
    mine = claimed(conn, wanted)
    if run.status == "Running":
        return
    status = _STATUS[run.status]
    end_step(conn, mine.job_id, "load", StepOutcome(status, Counts(), "csv", "iceberg"))
    finish(conn, mine, AttemptOutcome(status, "app-1"))


def planned(conn: Connection, project: Project) -> Plan:
    """The plan of the job."""
    logs = history.read_table_logs(conn, list(project.tables.values()))
    return plan(project.tables, logs, NOW, select_tables(project, (JOB,)))


def ready(conn: Connection, project: Project) -> set[str]:
    """The tables that the plan would run now."""
    return {item.table for item in planned(conn, project).ready()}


def claimable(conn: Connection, project: Project) -> set[str]:
    """The tables of the job whose newest window a runner really gets now."""
    found = set()
    for name, item in planned(conn, project).tables.items():
        window = day(2)
        older = item.passed_over
        order = Order(project, item.table, window, Trigger.PENDING, NOW, passed_over=older)
        undone = conn.begin_nested()
        try:
            known = build_processes(project.tables.values())
            homes.lock_to_rename(conn, Home(name, "host", "/kettle", None))
            order = VersionToRun(conn, order).prepare_order()
            ClaimTransaction(conn, order, ME).claim(known)
        except LogdrivenError:
            pass
        else:
            found.add(name)
        undone.rollback()
    return found


def running(conn: Connection, project: Project) -> set[str]:
    """The tables that the plan shows as running."""
    queue = planned(conn, project).windows()
    return {item.table for item in queue if item.state is PlanState.RUNNING}
