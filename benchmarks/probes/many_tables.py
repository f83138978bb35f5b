"""P: a day of many hourly tables without Spark: claims, log, ticks, the mirror and their memory.

What is measured is `benchmarks.many_tables` on PostgreSQL with four workers and on SQLite with one.
This process has Dagster's part: it loads the code location, and asks its sensors before, while and
after the windows run, over an instance in the same database server.
`python -m benchmarks.probes.many_tables SOURCE FOLDER DAYS ROUNDS TABLES HOURS` prints JSON.
"""

import json
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

import psutil
import sqlalchemy as sa
import yaml
from dagster import DagsterInstance, build_sensor_context

from benchmarks import loading
from benchmarks.machine import peak_megabytes
from benchmarks.many_tables import Day, make_project, worker
from benchmarks.settings import own_environment, own_python
from logdriven_dagster.execution.definitions.registering import register
from logdriven_dagster.orchestration.code_location import build_definitions
from logdriven_dagster.runlog.schema.attempts import job_log
from scripts import servers

_WORKERS = 4


@dataclass
class Measured:
    """What a day was like on one database."""

    windows: int = 0
    """Attempts, those included that failed."""
    hours: list[float] = field(default_factory=list)
    """Milliseconds for each attempt, hour by hour."""
    processor: float = 0
    """Seconds of all workers."""
    server_processor: float = 0
    worker_mb: float = 0
    daemon_mb: float = 0
    loaded: float = 0
    """Seconds until the code location is there."""
    open_ticks: list[float] = field(default_factory=list)
    idle_ticks: list[float] = field(default_factory=list)
    mirror_ms: float = 0
    """Milliseconds of a tick of the mirror for each window that it showed."""

    def rows(self) -> Iterator[tuple[str, str]]:
        """Yield what stands in the table."""
        yield "attempts", f"{self.windows:,}"
        yield "windows a second, median hour", f"{1000 / median(self.hours):.0f}"
        yield "windows a second, least and most", _spread([1000 / each for each in self.hours])
        yield "workers' processor, ms a window", f"{1000 * self.processor / self.windows:.1f}"
        yield (
            "server's processor, ms a window",
            f"{1000 * self.server_processor / self.windows:.1f}",
        )
        yield "memory of a worker, MB", f"{self.worker_mb:,.0f}"
        yield "the code location is loaded, s", f"{self.loaded:.1f}"
        yield "tick of the catch-up sensor, windows open, ms", _spread(self.open_ticks)
        yield "tick of the catch-up sensor, nothing to do, ms", _spread(self.idle_ticks)
        yield "mirror, ms a window that it shows", f"{self.mirror_ms:.1f}"
        yield "memory of the process with the sensors, MB", f"{self.daemon_mb:,.0f}"


def main(folder: Path, rounds: int, tables: int, hours: int) -> dict[str, Any]:
    """Return both days side by side, and the figures that have targets."""
    on_postgres, on_sqlite = Day(tables, hours, _WORKERS), Day(tables, hours, 1)
    found = {
        f"PostgreSQL, {_WORKERS} workers": _in_a_process(folder, "postgresql", on_postgres),
        "SQLite, 1 worker": _in_a_process(folder, "sqlite", on_sqlite),
    }
    columns = [dict(each.rows()) for each in found.values()]
    loads = loading.measure(tables, rounds)
    by_hand, ours = ([row[0] for row in loads[who]] for who in ("by hand", "ours"))
    ratio = [mine / theirs for mine, theirs in zip(ours, by_hand, strict=True)]
    first = next(iter(found.values()))
    return {
        "title": f"A day of {tables:,} hourly tables without Spark, {hours} hours",
        "text": "Half of the tables are three levels deep, 5 % come late, 1 % of the windows fail. "
        "The engine does nothing; the rest is this project's. PostgreSQL does not wait for its "
        "disk (fsync=off), SQLite does. Processes that load a code location of these tables use "
        f"{median(ours):.1f} s of a processor, of as many hand-written assets "
        f"{median(by_hand):.1f} s: {median(ratio):.2f} times as long.",
        "table": {
            "head": ["measure", *found],
            "rows": [[name, *(of[name] for of in columns)] for name in columns[0]],
        },
        "window_ms": first.hours,
        "tick_ms": [*first.open_ticks, *first.idle_ticks],
        "daemon_mb": [first.daemon_mb],
        "loading_ratio": ratio,
    }


def _in_a_process(folder: Path, database: str, day: Day) -> Measured:
    """Measure a day in a process of its own, whose memory is that of one code location."""
    words = [own_python(), "-m", __spec__.name, database, str(folder / database)]
    numbers = map(str, (day.tables, day.hours, day.workers))
    done = subprocess.run(
        [*words, *numbers],
        env=own_environment(),
        stdout=subprocess.PIPE,
        stderr=sys.stderr,
        check=True,
    )
    return Measured(**json.loads(done.stdout.splitlines()[-1]))


def measure(database: str, folder: Path, day: Day) -> Measured:
    """Run the whole day."""
    folder.mkdir(parents=True)
    with ExitStack() as stack:
        log, home = stack.enter_context(databases(database, folder))
        make_project(folder / "project", day, log)
        found = Measured()
        register(folder / "project")
        began = time.perf_counter()
        project = register(folder / "project").project
        definitions = build_definitions(project)
        definitions.get_repository_def()
        found.loaded = time.perf_counter() - began
        instance = stack.enter_context(DagsterInstance.from_config(str(home)))

        def tick(name: str) -> float:
            sensor = definitions.resolve_sensor_def(name)
            return _milliseconds(lambda: sensor(build_sensor_context(instance)))

        workers = stack.enter_context(_workers(folder / "project", day))
        for number, instant in enumerate(day.instants):
            found.open_ticks.append(tick("catch_up_sensor"))
            milliseconds = _hour(found, workers, instant.isoformat())
            if number < day.hours:  # those behind have few windows, which came late
                found.hours.append(milliseconds)
            if number == 0:
                found.mirror_ms = tick("run_log_mirror") / min(found.windows, 2000)
        found.idle_ticks = [tick("catch_up_sensor") for _ in range(3)]
        _refuse_unfinished(log, day)
        found.daemon_mb = peak_megabytes()
    return found


def _hour(found: Measured, workers: Sequence["subprocess.Popen[str]"], instant: str) -> float:
    """Let the workers catch up to an instant; milliseconds for each attempt."""
    began, before = time.perf_counter(), _server_processor()
    for each in workers:
        assert each.stdin
        each.stdin.write(f"{instant}\n")
        each.stdin.flush()
    told = [json.loads(each.stdout.readline()) for each in workers if each.stdout]
    milliseconds = 1000 * (time.perf_counter() - began)
    attempts = sum(each["events"].get("WindowStarted", 0) for each in told)
    found.windows += attempts
    found.processor += sum(each["processor"] for each in told)
    found.server_processor += _server_processor() - before
    found.worker_mb = max(each["megabytes"] for each in told)
    return milliseconds / max(attempts, 1)


def _refuse_unfinished(url: str, day: Day) -> None:
    """Wrong logs have no time: each window has succeeded once."""
    engine = sa.create_engine(url)
    query = sa.select(sa.func.count()).where(job_log.c.status == "SUCCESS", job_log.c.latest == 1)
    with engine.connect() as conn:
        done = conn.execute(query).scalar_one()
    engine.dispose()
    if done != day.windows:
        raise RuntimeError(f"{done:,} of {day.windows:,} windows have succeeded")


@contextmanager
def _workers(project: Path, day: Day) -> Iterator[list["subprocess.Popen[str]"]]:
    words = [own_python(), "-m", "benchmarks.many_tables", str(project)]
    started = [
        subprocess.Popen(
            [*words, worker(n)],
            env=own_environment(),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for n in range(day.workers)
    ]
    try:
        tables = sum(json.loads(each.stdout.readline()) for each in started if each.stdout)
        assert tables == day.tables
        yield started
    finally:
        for each in started:
            each.kill()
            each.wait()


@contextmanager
def databases(database: str, folder: Path) -> Iterator[tuple[str, Path]]:
    """The URL of a new run log, and the folder of a Dagster instance beside it."""
    home = folder / "dagster"
    home.mkdir()
    if database == "sqlite":
        (home / "dagster.yaml").touch()
        yield f"sqlite:///{folder / 'log.db'}", home
        return
    root = Path(f"/tmp/logdriven-bench-{time.time_ns()}")
    try:
        admin = sa.make_url(servers.start_postgres(root))
        engine = sa.create_engine(admin, isolation_level="AUTOCOMMIT")
        with engine.connect() as conn:
            conn.execute(sa.text("CREATE DATABASE dagster"))
        engine.dispose()
        of_dagster = admin.set(drivername="postgresql", database="dagster")
        storage = {"postgres": {"postgres_url": of_dagster.render_as_string(hide_password=False)}}
        (home / "dagster.yaml").write_text(yaml.safe_dump({"storage": storage}))
        yield admin.render_as_string(hide_password=False), home
    finally:
        servers.stop(root)
        shutil.rmtree(root, ignore_errors=True)


def _server_processor() -> float:
    """Seconds that PostgreSQL's processes have used, as far as they run."""
    found = 0.0
    for process in psutil.process_iter(["name", "cpu_times"]):
        times = process.info["cpu_times"]
        if process.info["name"] == "postgres" and times is not None:
            found += times.user + times.system
    return found


def _milliseconds(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return 1000 * (time.perf_counter() - began)


def _spread(values: Sequence[float]) -> str:
    return f"{median(values):,.0f} ({min(values):,.0f}–{max(values):,.0f})"


if __name__ == "__main__":
    if sys.argv[1] in ("postgresql", "sqlite"):
        day = Day(*map(int, sys.argv[3:6]))
        print(json.dumps(vars(measure(sys.argv[1], Path(sys.argv[2]), day))))
    else:
        print(json.dumps(main(Path(sys.argv[2]), *map(int, sys.argv[4:7]))))
