"""What planning, ticks, claims and looks at the log cost, as ratios over ever longer histories.

`python -m benchmarks.scale [--windows 100 1000 9700] [--tables 1000] [--databases sqlite postgresql
mariadb]` writes a log for each length and database (`benchmarks.big_logs`; servers are started for
it) and prints one object of JSON: medians in milliseconds, and each over that of the first length.
With `--urls` logs that are there already are measured, in this order.
"""

import argparse
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from dagster import DagsterInstance, build_sensor_context

from benchmarks.big_logs import fill, shape_of
from benchmarks.big_projects import Shape, make_project
from logdriven_dagster.config import Project
from logdriven_dagster.config.derived.processes import build_processes
from logdriven_dagster.execution.definitions.registering import register
from logdriven_dagster.execution.definitions.renames import settle_tables
from logdriven_dagster.execution.metrics import Metrics
from logdriven_dagster.execution.opening import open_runner
from logdriven_dagster.execution.runner import Runner
from logdriven_dagster.execution.window.claiming import ClaimTransaction
from logdriven_dagster.execution.window.orders import Order
from logdriven_dagster.model.attempts import Trigger
from logdriven_dagster.model.batches import Processes
from logdriven_dagster.orchestration.code_location import build_definitions
from logdriven_dagster.planning.plan import PlannedWindow
from logdriven_dagster.runlog import RunLog
from logdriven_dagster.runlog.history import logs as history
from logdriven_dagster.runlog.homes import LogProject
from logdriven_dagster.runlog.observed import reports
from logdriven_dagster.runlog.observed.activity import Today
from scripts import servers


class _UndoneError(Exception):
    """A transaction that is only looked at is not to be kept."""


def claim_undone(
    runner: Runner, processes: Processes, planned: PlannedWindow, now: datetime
) -> None:
    """Claim a window in a transaction that is undone."""
    table = runner.project.tables[planned.table]
    order = Order(runner.project, table, planned.window, planned.trigger, now)

    def work(conn: sa.Connection) -> None:
        ClaimTransaction(conn, order, runner.owner).claim(processes)
        raise _UndoneError

    with suppress(_UndoneError):
        runner.run_log.write(work)


class Measured:
    """One log, and what is asked of it."""

    def __init__(self, folder: Path, url: str, shape: Shape) -> None:
        make_project(folder, shape, url)
        self.project: Project = register(folder).project
        self.runner: Runner = open_runner(self.project)
        self.log: RunLog = self.runner.run_log
        settle_tables(self.project, self.log, self.project.tables.values())
        self.definitions = build_definitions(self.project)
        self.now = shape.now + timedelta(hours=1, minutes=5)
        ready = self.runner.plan(self.now).ready()
        self.next_window = next(item for item in ready if item.trigger is Trigger.PENDING)
        self.processes = build_processes(self.project.tables.values())

    def actions(self) -> dict[str, Callable[[], object]]:
        """Name → what is measured; each leaves the log as it was."""
        instance = DagsterInstance.ephemeral()  # each tick of the mirror shows 2,000 windows again

        def tick(name: str) -> Callable[[], object]:
            definition = self.definitions.resolve_sensor_def(name)
            return lambda: definition(build_sensor_context(instance))

        return {
            "plan": self.plan,
            "sensor tick": tick("catch_up_sensor"),
            "mirror tick": tick("run_log_mirror"),
            "claim": lambda: claim_undone(self.runner, self.processes, self.next_window, self.now),
            "latest statuses": lambda: self._read(self._statuses),
            "v_table_log": lambda: self._read(
                lambda conn: conn.execute(sa.text("SELECT * FROM v_table_log")).all()
            ),
            "newest 100 attempts": lambda: self._read(history.list_attempts),
            "metrics, first scrape": lambda: self._exporter().text(),
            "metrics, next scrapes": self._exporter().text,
            "report of a day": lambda: self._read(self._report),
        }

    def plan(self) -> object:
        return next(self.runner.plan(self.now).ready(), None)

    def _exporter(self) -> Metrics:
        return Metrics(self.log, self.runner.load_judged_project, Today())

    def _statuses(self, conn: sa.Connection) -> object:
        return history.read_latest_statuses(conn, self.project.tables)

    def _report(self, conn: sa.Connection) -> object:
        now = datetime.now(timezone.utc)
        return reports.list_attempts_between(conn, now - timedelta(hours=2), now)

    def _read(self, work: Callable[[sa.Connection], object]) -> object:
        return self.log.ask(work)


def measure(urls: Sequence[str], rounds: int) -> list[dict[str, Any]]:
    """For each log its attempts, and action → milliseconds, by the clock and of this processor.

    The logs take turns in each round, so that what else the machine does falls on all of them; the
    round before the first is not counted.
    """
    with tempfile.TemporaryDirectory() as folder:
        shapes = [_shape(url) for url in urls]
        measured = [
            Measured(Path(folder) / str(n), url, shape)
            for n, (url, shape) in enumerate(zip(urls, shapes, strict=True))
        ]
        actions = [each.actions() for each in measured]
        times: list[dict[str, list[tuple[float, float]]]] = [{} for _ in urls]
        for number in range(rounds + 1):
            for name in actions[0]:
                for n, of in enumerate(actions):
                    took = _seconds(of[name])
                    if number:
                        times[n].setdefault(name, []).append(took)
        return [
            {
                "attempts": shape.tables * shape.windows,
                "milliseconds": {name: _figures(took) for name, took in found.items()},
            }
            for shape, found in zip(shapes, times, strict=True)
        ]


def _shape(url: str) -> Shape:
    engine = sa.create_engine(url)
    try:
        return shape_of(engine)
    finally:
        engine.dispose()


def _seconds(work: Callable[[], object]) -> tuple[float, float]:
    began = time.perf_counter(), time.process_time()
    work()
    return time.perf_counter() - began[0], time.process_time() - began[1]


def _figures(times: Sequence[tuple[float, float]]) -> dict[str, float]:
    clock, processor = ([1000 * t for t in each] for each in zip(*times, strict=True))
    return {
        "median": round(statistics.median(clock), 1),
        "lowest": round(min(clock), 1),
        "highest": round(max(clock), 1),
        "processor": round(statistics.median(processor), 1),
    }


def ratios(figures: Sequence[dict[str, Any]]) -> dict[str, list[float]]:
    """Action → the median of each length over that of the first, which is the shortest."""
    medians = [
        {name: found["median"] for name, found in each["milliseconds"].items()} for each in figures
    ]
    return {name: [round(m[name] / medians[0][name], 2) for m in medians] for name in medians[0]}


@contextmanager
def logs(databases: Sequence[str], shapes: Sequence[Shape]) -> Iterator[dict[str, list[str]]]:
    """Database → URLs of logs of these shapes, on servers that end with the block."""
    root = Path(tempfile.mkdtemp(prefix="logdriven-scale-"))
    root.chmod(0o755)
    with ExitStack() as stack:
        stack.callback(servers.stop, root)
        urls = servers.start(root / "servers")
        stack.callback(servers.stop, root / "servers")
        found: dict[str, list[str]] = {}
        for name in databases:
            for number, shape in enumerate(shapes):
                url = _new_database(name, root, urls, number)
                log = RunLog.open(url)
                log.enter(LogProject("scale", "", "", None))
                fill(log, shape)
                found.setdefault(name, []).append(url)
        yield found


def _new_database(name: str, root: Path, urls: dict[str, str], number: int) -> str:
    if name == "sqlite":
        return f"sqlite:///{root / f'{number}.db'}"
    variable = "LOGDRIVEN_TEST_POSTGRES" if name == "postgresql" else "LOGDRIVEN_TEST_MARIADB"
    admin = sa.create_engine(urls[variable], isolation_level="AUTOCOMMIT")
    with admin.connect() as conn:
        conn.execute(sa.text(f"CREATE DATABASE scale{number}"))
    return admin.url.set(database=f"scale{number}").render_as_string(hide_password=False)


def main() -> None:
    """Print one object of JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--windows", type=int, nargs="+", default=[100, 1000, 9700])
    parser.add_argument("--tables", type=int, default=1000)
    parser.add_argument("--databases", nargs="+", default=["sqlite", "postgresql", "mariadb"])
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--urls", nargs="+", help="logs that were written before, shortest first")
    given = parser.parse_args()
    with ExitStack() as stack:
        if given.urls:
            found = {sa.make_url(given.urls[0]).get_backend_name(): given.urls}
        else:
            shapes = [Shape(given.tables, windows) for windows in given.windows]
            found = stack.enter_context(logs(given.databases, shapes))
        results = {}
        for name, urls in found.items():
            figures = measure(urls, given.rounds)
            results[name] = {"figures": figures, "over the shortest": ratios(figures)}
    sys.stdout.write(json.dumps(results, indent=2) + "\n")


if __name__ == "__main__":
    main()
