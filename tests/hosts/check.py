"""What a project on a host comes to, read over the network: a JSON list of violations.

`check.py faults FOLDER DAYS` holds a scenario of `tests.faults` to its invariants;
`check.py flights FOLDER CSV` holds the demo to the flights that its source had.
"""

import csv
import json
import sys
from collections import Counter
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

from sqlalchemy import select

from logdriven_dagster.config import Project, load_project
from logdriven_dagster.engine.iceberg.names import identifier
from logdriven_dagster.engine.targets.iceberg.catalog import open_catalog
from logdriven_dagster.execution.definitions.homes import open_run_log
from logdriven_dagster.execution.opening import open_runner
from logdriven_dagster.runlog.schema.attempts import job_log, step_log
from tests.builders import UTC, datetime
from tests.faults.invariants import violations
from tests.faults.projects import Scenario

_FLIGHT = ("year", "month", "day", "sched_dep_time", "carrier", "flight", "origin", "dest")
_NOW = datetime(2030, 1, 1, tzinfo=UTC)


def of_faults(folder: Path, days: int) -> list[str]:
    scenario = Scenario("lake", folder, days)
    return list(violations(scenario, open_runner(scenario.project).run_log).found)


def of_flights(folder: Path, source: Path) -> Iterator[str]:
    project = load_project(folder)
    with open_run_log(project).read() as conn:
        jobs = list(conn.execute(select(job_log).order_by(job_log.c.job_id)))
        steps = list(conn.execute(select(step_log)))
    yield from _in_log(jobs)
    yield from _in_counts(project, jobs, steps)
    yield from _in_rows(project, source)
    for name, table in open_runner(project).plan(_NOW).tables.items():
        if table.pending:
            yield f"{name}: {table.pending} windows are pending"


def _in_log(jobs: list[Any]) -> Iterator[str]:
    """Nothing is left running, no window began before the one before it, tokens grow."""
    yield from (f"job {job.job_id} is still RUNNING" for job in jobs if job.status == "RUNNING")
    for name in {job.job_name for job in jobs}:
        mine = [job for job in jobs if job.job_name == name]
        first: dict[int, Any] = {}
        for job in mine:
            if job.status == "SUCCESS":
                first.setdefault(job.window_start, job)
        for before, after in pairwise(sorted(first)):
            began = min(job.job_start_time for job in mine if job.window_start == after)
            if began < first[before].job_end_time:
                yield f"{name}: {first[after].data_range_start} began too early"
        for start in first:
            tokens = [job.fencing_token for job in mine if job.window_start == start]
            if any(a >= b for a, b in pairwise(tokens)):
                yield f"{name}: fencing tokens do not grow: {tokens}"


def _in_counts(project: Project, jobs: list[Any], steps: list[Any]) -> Iterator[str]:
    """The latest attempts wrote the rows that are there; full tables hold those of one window."""
    latest = {job.job_id: job for job in jobs if job.latest == 1 and job.status == "SUCCESS"}
    for name, table in project.tables.items():
        written = {
            latest[step.job_id].window_start: step.target_count
            for step in steps
            if step.job_id in latest
            and latest[step.job_id].job_name == name
            and step.target_count is not None
        }
        full = table.incremental_type == "full"
        wanted = written[max(written)] if full else sum(written.values())
        if (there := len(_rows(project, name))) != wanted:
            yield f"{name}: the log counts {wanted} rows, {there} are there"
    flights = {job_id for job_id, job in latest.items() if job.job_name == "ods.flights"}
    read = sum(step.source_count or 0 for step in steps if step.job_id in flights)
    if read != (written := len(_rows(project, "ods.flights"))):
        yield f"ods.flights: {read} rows were read and {written} written"


def _in_rows(project: Project, source: Path) -> Iterator[str]:
    """Every flight of the source is in both tables of flights, once."""
    table = project.table("ods.flights")
    assert table.default_start is not None
    assert table.end is not None
    first, end = ((day.year, day.month, day.day) for day in (table.default_start, table.end))
    with source.open(newline="") as file:
        flights = [tuple(row[name] for name in _FLIGHT) for row in csv.DictReader(file)]
    wanted = Counter(flight for flight in flights if first <= tuple(map(int, flight[:3])) < end)
    for name in ("ods.flights", "dwd.flights"):
        rows = _rows(project, name)
        there = Counter(tuple(str(row[name]) for name in _FLIGHT if name in row) for row in rows)
        if name == "ods.flights" and there != wanted:
            yield f"{name}: {(wanted - there).total()} lost, {(there - wanted).total()} too many"
        if len(rows) != wanted.total():
            yield f"{name}: {len(rows)} rows of {wanted.total()}"


def _rows(project: Project, name: str) -> list[dict[str, Any]]:
    table = open_catalog(project).load_table(identifier(name))
    found: list[dict[str, Any]] = table.scan().to_arrow().to_pylist()
    return found


def main() -> None:
    kind, folder, given = sys.argv[1:]
    found = (
        of_faults(Path(folder), int(given))
        if kind == "faults"
        else list(of_flights(Path(folder), Path(given)))
    )
    sys.stdout.write(f"\n{json.dumps(found)}\n")


if __name__ == "__main__":
    main()
