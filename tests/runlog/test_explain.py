"""No statement of a plan, claim, end, tick or status reads a history: databases say so themselves.

Statements are taken as the product executes them, and explained over a log with a history on both
sides of the archive.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from dagster import DagsterInstance, build_sensor_context
from sqlalchemy import event

from benchmarks.big_logs import fill
from benchmarks.big_projects import Shape, make_project
from benchmarks.scale import claim_undone
from logdriven_dagster.config.derived.processes import build_processes
from logdriven_dagster.execution.definitions.registering import register
from logdriven_dagster.execution.definitions.renames import settle_tables
from logdriven_dagster.execution.metrics import Metrics
from logdriven_dagster.execution.opening import open_runner
from logdriven_dagster.execution.runner import Runner
from logdriven_dagster.execution.window.claiming import ClaimTransaction
from logdriven_dagster.execution.window.journal import Journal
from logdriven_dagster.execution.window.orders import Order
from logdriven_dagster.execution.window.state import PassState
from logdriven_dagster.execution.window.versions import VersionToRun
from logdriven_dagster.model.attempts import AttemptOutcome, Counts, Status, Trigger
from logdriven_dagster.model.runs import Published, Staged
from logdriven_dagster.orchestration.code_location import build_definitions
from logdriven_dagster.planning.plan import PlannedWindow
from logdriven_dagster.runlog import RunLog
from logdriven_dagster.runlog.attempts.leases import ATTEMPTS
from logdriven_dagster.runlog.history import logs as history
from logdriven_dagster.runlog.history import refreshes
from logdriven_dagster.runlog.observed import reports
from logdriven_dagster.runlog.observed.activity import Today
from logdriven_dagster.runlog.observed.mirror import list_ended_since
from logdriven_dagster.runlog.schema.attempts import (
    job_log,
    job_log_archive,
    refresh_bookmark,
    step_log,
    step_log_archive,
)
from logdriven_dagster.runlog.schema.observations import job_run
from tests.runlog.explaining import EXPLAIN, HISTORY, ROWS_READ
from tests.servers import KINDS, database_of

pytestmark = pytest.mark.usefixtures("slow")

SHAPE = Shape(tables=60, windows=400)
Statement = tuple[str, Any]
_OURS = ("job_", "step_", "v_")
"""In the names of the tables and views of the log; Dagster's own tables have none of it."""


class World:
    """A project over a log with a history, and the statements that it has executed."""

    def __init__(self, folder: Path, url: str, shape: Shape = SHAPE) -> None:
        self.shape = shape
        make_project(folder, shape, url)
        self.project = register(folder).project
        self.runner: Runner = open_runner(self.project)
        engine = self.runner.run_log.engine
        settle_tables(self.project, self.runner.run_log, self.project.tables.values())
        fill(self.runner.run_log, shape)
        archive(self.runner.run_log, 75 * shape.windows)
        self.engine = engine
        self.statements: list[Statement] = []
        # Sensors open the log by themselves.
        event.listen(sa.engine.Engine, "before_cursor_execute", self._note)

    def _note(self, _c: Any, _cursor: Any, statement: str, values: Any, *_: Any) -> None:
        if statement.lstrip("( ").startswith(("SELECT", "UPDATE", "DELETE", "WITH")):
            self.statements.append((statement, values))

    def explained(self, work: Callable[[], object]) -> list[str]:
        """The statements of some work that read a history, each with what its plan says."""
        self.statements.clear()
        work()
        asked = [item for item in self.statements if any(name in item[0] for name in _OURS)]
        assert asked
        explain = EXPLAIN[self.engine.dialect.name]
        with self.engine.connect() as conn:
            return [
                f"{found}: {text[:300]}"
                for text, values in asked
                for found in explain(conn, text, values)
            ]

    def rows_read(self, work: Callable[[], object]) -> int:
        """How much a database does for what some work asks: rows, or steps of SQLite's machine."""
        work()  # caches are warm
        self.statements.clear()
        work()
        count = ROWS_READ[self.engine.dialect.name]
        asked = [item for item in self.statements if not item[0].startswith(("UPDATE", "DELETE"))]
        with self.engine.connect() as conn:
            return sum(count(conn, text, values) for text, values in asked)

    def close(self) -> None:
        event.remove(sa.engine.Engine, "before_cursor_execute", self._note)
        self.engine.dispose()


def archive(log: RunLog, job_runs: int) -> None:
    """A history on the other side as long as this one, and so many runs of nine jobs."""
    engine = log.engine
    with log.begin() as conn:
        for new, old in ((job_log, job_log_archive), (step_log, step_log_archive)):
            moved = {"job_id": -new.c.job_id}
            if new is job_log:
                moved["job_schedule_id"] = "old-" + new.c.job_schedule_id
                moved["window_start"] = new.c.window_start - 10**9
                moved["window_end"] = new.c.window_end - 10**9
            rows = sa.select(*(moved.get(c.name, c) for c in new.columns))
            conn.execute(sa.insert(old).from_select([c.name for c in new.columns], rows))
        ran = {"job_name": "nightly", "job_type": "standard", "status": "SUCCESS"}
        rows = [{**ran, "job_code": f"c{n % 9}", "project_name": "scale"} for n in range(job_runs)]
        conn.execute(sa.insert(job_run), rows)
    with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as conn:
        if engine.dialect.name == "postgresql":
            conn.execute(sa.text("VACUUM ANALYZE"))
        elif engine.dialect.name != "sqlite":
            conn.execute(sa.text("ANALYZE TABLE " + ", ".join(sorted(HISTORY))))


@contextmanager
def world_on(
    kind: str, request: pytest.FixtureRequest, folder: Path, shape: Shape = SHAPE
) -> Iterator[World]:
    with database_of(kind, request, folder) as url:
        made = World(folder, url.render_as_string(hide_password=False), shape)
        yield made
        made.close()


@pytest.fixture(scope="module", params=KINDS)
def kind(request) -> str:
    return request.param


@pytest.fixture(scope="module")
def world(kind, request, tmp_path_factory):
    """One for all tests on each kind of database: to make it takes most of their time."""
    with world_on(kind, request, tmp_path_factory.mktemp("world")) as made:
        yield made


@pytest.mark.sampled
def test_a_plan_reads_no_history(world):
    now = SHAPE.now
    assert world.explained(lambda: list(world.runner.plan(now).windows())) == []


def test_a_claim_and_its_end_read_no_history(world):
    planned = next(
        item for item in world.runner.plan(SHAPE.now).ready() if item.trigger is Trigger.UPSTREAM
    )
    assert world.explained(lambda: run(world.runner, planned)) == []


def test_the_claim_after_a_rerun_moves_the_bookmarks_of_its_table(world):
    """The claim of the rerun itself does not: if it fails, it is still to be done."""
    planned = next(
        item for item in world.runner.plan(SHAPE.now).ready() if item.trigger is Trigger.UPSTREAM
    )
    log, tables = world.runner.run_log, world.runner.project.tables
    marks = sa.select(refresh_bookmark.c.job_id).where(refresh_bookmark.c.job_name == planned.table)
    before = log.ask(lambda conn: conn.execute(marks).scalar_one())
    run(world.runner, planned)
    log.write(
        lambda conn: refreshes.advance_bookmarks(conn, tables[planned.table], list(tables.values()))
    )
    assert log.ask(lambda conn: conn.execute(marks).scalar_one()) > before


def run(runner: Runner, planned: Any) -> None:
    """One window from its claim to its end, as the runner logs it, without Spark."""
    table = runner.project.tables[planned.table]
    order = Order(runner.project, table, planned.window, planned.trigger, SHAPE.now)
    order = runner.run_log.ask(lambda conn: VersionToRun(conn, order).prepare_order())
    registry = runner.passes.processes_for(order)
    (attempt,) = runner.run_log.write(
        lambda conn: ClaimTransaction(conn, order, runner.owner).claim(registry)
    )
    journal = Journal(runner.run_log, table, registry, runner.announcer(table))
    staged = {"load": (Staged("load", Counts(1, 1, 1, 0), "sql", "iceberg", (), state="{}"),)}
    state = PassState(attempts=(attempt,), runs=(), step="load", staged=staged)
    journal.persist(state)
    runner.run_log.ask(lambda conn: ATTEMPTS.verify(conn, [attempt]))
    published = {"load": (Published("load", "ods.t"),)}
    state = replace(state, published=published)
    journal.succeed(state, AttemptOutcome(Status.SUCCESS, "app", None, 0))


@pytest.mark.sampled
@pytest.mark.parametrize("sensor", ["catch_up_sensor", "run_log_mirror"])
def test_a_tick_reads_no_history(world, sensor):
    definition = build_definitions(world.project).resolve_sensor_def(sensor)
    instance = DagsterInstance.ephemeral()
    assert world.explained(lambda: definition(build_sensor_context(instance))) == []


def test_what_operators_look_at_reads_no_history(world):
    ask = world.runner.run_log.ask

    def look() -> None:
        ask(lambda conn: history.read_latest_statuses(conn, world.project.tables))
        ask(lambda conn: conn.execute(sa.text("SELECT * FROM v_table_log")).all())
        ask(lambda conn: conn.execute(sa.text("SELECT * FROM v_job_log")).all())
        ask(history.list_attempts)
        ask(lambda conn: history.list_attempts(conn, "ods.t0000"))

    assert world.explained(look) == []


def test_a_report_reads_what_ran_since(world):
    def report() -> None:
        span = SHAPE.now - timedelta(hours=2), SHAPE.now
        world.runner.run_log.ask(lambda conn: reports.list_attempts_between(conn, *span))
        world.runner.run_log.ask(lambda conn: reports.list_job_runs_between(conn, *span))

    assert world.explained(report) == []


def scrape(world: World) -> Callable[[], object]:
    """What an exporter does that is asked for the first time."""
    return lambda: Metrics(world.runner.run_log, lambda: world.project, Today()).text()


def test_metrics_read_what_ended_today(world):
    assert world.explained(scrape(world)) == []


LONGER = Shape(tables=60, windows=1000)


@pytest.fixture(scope="module")
def longer(kind, request, tmp_path_factory):
    """The same over a history more than twice as long."""
    with world_on(kind, request, tmp_path_factory.mktemp("longer"), LONGER) as made:
        yield made


@pytest.mark.sampled
def test_the_work_of_the_database_does_not_grow_with_the_history(world, longer):
    def tick(of: World) -> None:
        list(of.runner.plan(of.shape.now).windows())
        ask = of.runner.run_log.ask
        ask(lambda conn: history.read_latest_statuses(conn, of.project.tables))
        ask(lambda conn: list_ended_since(conn, None, [], 2000))
        ask(lambda conn: conn.execute(sa.text("SELECT * FROM v_table_log")).all())
        ask(lambda conn: conn.execute(sa.text("SELECT * FROM v_job_log")).all())

    works: list[Callable[[World], Callable[[], object]]] = [lambda of: lambda: tick(of), scrape]
    for work in works:
        short, long = (of.rows_read(work(of)) for of in (world, longer))
        assert long < 1.2 * short


@pytest.mark.sampled
def test_nor_does_the_work_of_claims(world, longer):
    """Databases choose other indexes for one table than for many."""

    def claims(of: World) -> None:
        now = of.shape.now + timedelta(hours=1, minutes=5)
        registry = build_processes(of.project.tables.values())
        ready: dict[str, PlannedWindow] = {}
        for planned in of.runner.plan(now).ready():
            ready.setdefault(planned.table, planned)
        for planned in ready.values():
            claim_undone(of.runner, registry, planned, now)
        assert len(ready) > 20

    short, long = (of.rows_read(lambda of=of: claims(of)) for of in (world, longer))
    assert long < 1.2 * short
