"""Q: what it costs a window to be told to Dagster, in a pass of many windows and by the mirror.

A table's windows run in one pass, without Spark (`benchmarks.null_runs`), once by the job
`catch_up` and once outside of Dagster, so that the mirror shows them. What is measured is the time
of the one who tells, over an instance on SQLite and one on PostgreSQL, in turns: event by event, as
storages that we do not know are written, and in bulk.
`python -m benchmarks.probes.event_log SOURCE FOLDER DAYS ROUNDS` prints JSON.
"""

import json
import sys
import time
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from types import MappingProxyType
from typing import Any

from dagster import DagsterInstance, Definitions, build_sensor_context

from benchmarks.contestants.logdriven import Variant, write_project
from benchmarks.data import midnight
from benchmarks.null_runs import cheap_runner
from benchmarks.probes.many_tables import databases
from benchmarks.tasks import Task
from logdriven_dagster.config import Project, load_project
from logdriven_dagster.execution.definitions.homes import open_run_log
from logdriven_dagster.execution.events import WindowEvent
from logdriven_dagster.orchestration.code_location import build_definitions
from logdriven_dagster.orchestration.events import bulk
from logdriven_dagster.orchestration.events.reporting import Reporter
from logdriven_dagster.orchestration.location import Location
from logdriven_dagster.orchestration.sensors.mirror import MIRROR

_DATABASES = {"sqlite": "SQLite", "postgresql": "PostgreSQL"}
_TELLERS = {"pass": "in a pass, by its run", "mirror": "by the mirror"}
_WAYS = ("event by event", "in bulk")


def main(source: Path, folder: Path, days: int, rounds: int) -> dict[str, Any]:
    """Milliseconds that a window costs who tells of it, by database, teller and way."""
    took: dict[tuple[str, str, str], list[float]] = {}
    for database in _DATABASES:
        for turn in range(rounds * len(_WAYS)):
            way = _WAYS[(turn + turn // 2) % 2]
            state = folder / f"{database}-{turn}"
            state.mkdir(parents=True)
            with databases(database, state) as (log, home), _written(way):
                for teller, seconds in _told(source, state, log, home, days).items():
                    took.setdefault((database, teller, way), []).append(1000 * seconds / days)
    rows = [
        [f"{name}, {how}", *(f"{median(took[database, teller, way]):.1f}" for way in _WAYS)]
        for database, name in _DATABASES.items()
        for teller, how in _TELLERS.items()
    ]
    bulk_ms = {key[:2]: values for key, values in took.items() if key[2] == _WAYS[1]}
    return {
        "title": f"Cost of reporting a window to Dagster, {days} windows",
        "text": "Milliseconds per window, medians, alternately. PostgreSQL does not wait for its "
        "disk (fsync=off), SQLite does.",
        "table": {"head": ["instance", *(f"{way}, ms" for way in _WAYS)], "rows": rows},
        **{f"{database}_{teller}_ms": bulk_ms[database, teller] for database, teller in bulk_ms},
    }


@contextmanager
def _written(way: str) -> Iterator[None]:
    """Let events be written in a way."""
    known = bulk._WRITERS  # noqa: SLF001
    if way != _WAYS[1]:
        bulk._WRITERS = MappingProxyType({})  # noqa: SLF001
    try:
        yield
    finally:
        bulk._WRITERS = known  # noqa: SLF001


def _told(source: Path, folder: Path, log: str, home: Path, days: int) -> dict[str, float]:
    """Seconds of a run that tells of its pass, and of the mirror that tells of another table's."""
    with DagsterInstance.from_config(str(home)) as instance:
        by_run = _project(source, folder / "run", log, days)
        seconds = {"pass": _of_run(build_definitions(by_run), by_run, instance, days)}
        elsewhere = _project(source, folder / "elsewhere", f"sqlite:///{folder / 'other.db'}", days)
        run_log = open_run_log(elsewhere)
        for _ in cheap_runner(elsewhere, run_log, failing=0).catch_up(midnight(days)):
            pass
        sensor = build_definitions(elsewhere).resolve_sensor_def(MIRROR)
        began = time.perf_counter()
        sensor(build_sensor_context(instance))
        return seconds | {"mirror": time.perf_counter() - began}


def _project(source: Path, folder: Path, log: str, days: int) -> Project:
    variant = Variant(table=(("batch_size", "all"),), project=(("run_log", log),))
    write_project(Task("map", source, folder, 0, days), variant)
    return load_project(folder)


def _of_run(
    definitions: Definitions, project: Project, instance: DagsterInstance, days: int
) -> float:
    """Seconds that a run of `catch_up` spends on what it is told by its runner."""
    follow, opened, seconds = Reporter.follow, Location.open_runner, [0.0]

    def timed(reporter: Reporter, events: Generator[WindowEvent]) -> None:
        ran = [0.0]
        began = time.perf_counter()
        follow(reporter, _clocked(events, ran))
        seconds[0] = time.perf_counter() - began - ran[0]

    def open_null(_location: Location, context: Any) -> Any:
        run_log = open_run_log(project)
        return cheap_runner(project, run_log, failing=0, dagster_run_id=context.run.run_id)

    Reporter.follow, Location.open_runner = timed, open_null  # type: ignore[method-assign,assignment]
    try:
        config = {"ops": {"catch_up": {"config": {"now": midnight(days).isoformat()}}}}
        job = definitions.resolve_job_def("catch_up")
        assert job.execute_in_process(instance=instance, run_config=config).success
    finally:
        Reporter.follow, Location.open_runner = follow, opened  # type: ignore[method-assign]
    return seconds[0]


def _clocked(events: Generator[WindowEvent], ran: list[float]) -> Generator[WindowEvent]:
    """Pass events on, and add up the seconds that it takes to get them."""
    began = time.perf_counter()
    for event in events:
        ran[0] += time.perf_counter() - began
        yield event
        began = time.perf_counter()
    ran[0] += time.perf_counter() - began


if __name__ == "__main__":
    print(json.dumps(main(Path(sys.argv[1]), Path(sys.argv[2]), *map(int, sys.argv[3:5]))))
