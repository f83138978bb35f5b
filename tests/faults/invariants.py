"""What must hold in the end, checked from the data and the log alone."""

from collections import Counter
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import pairwise
from typing import Any

from sqlalchemy import select

from logdriven_dagster.runlog import RunLog
from logdriven_dagster.runlog.schema.attempts import job_log, step_log
from tests.faults.projects import Scenario


@dataclass(frozen=True)
class Checked:
    """What a finished scenario comes to."""

    found: list[str]
    """Violations."""
    windows: int
    attempts: int
    resumed_steps: int


def violations(scenario: Scenario, run_log: RunLog, set_back: timedelta = timedelta(0)) -> Checked:
    """Compare the targets with what they must be, and the log with itself and with them.

    Its times may be wrong by as much as its clock was set back.
    """
    with run_log.read() as conn:
        jobs = list(conn.execute(select(job_log).order_by(job_log.c.job_id)))
        steps = list(conn.execute(select(step_log)))
    found = [
        *_in_data(scenario),
        *_in_log(scenario, jobs, set_back),
        *_in_counts(scenario, jobs, steps),
    ]
    done = sum(job.latest == 1 and job.status == "SUCCESS" for job in jobs)
    resumed = sum(step.output.startswith("taken over from") for step in steps)
    return Checked(found, done, len(jobs), resumed)


def _in_data(scenario: Scenario) -> list[str]:
    """Every window's rows are in the target exactly once."""
    actual, found = scenario.actual(), []
    for name, rows in scenario.expected().items():
        there, wanted = Counter(actual.get(name, [])), Counter(rows)
        if there != wanted:
            lost, more = (wanted - there).total(), (there - wanted).total()
            found.append(f"{name}: {lost} rows lost, {more} too many")
    return found


def _in_log(scenario: Scenario, jobs: list[Any], set_back: timedelta) -> list[str]:
    """Each window succeeded, in order, with growing tokens, and nothing is left running.

    Each succeeded once, except those of a changed query and the tables behind it.
    """
    found = [f"job {job.job_id} is still RUNNING" for job in jobs if job.status == "RUNNING"]
    for name in scenario.project.tables:
        mine = [job for job in jobs if job.job_name == name]
        done = {j.window_start: j for j in mine if j.latest == 1 and j.status == "SUCCESS"}
        successes = [job for job in mine if job.status == "SUCCESS"]
        again = scenario.is_changed and name in ("dwd.twice", "dws.sums")
        if len(done) != scenario.days or (len(successes) != scenario.days and not again):
            found.append(f"{name}: {len(done)} of {scenario.days} windows are done, each once")
        first_ends: dict[int, datetime] = {}
        for job in successes:
            first_ends.setdefault(job.window_start, job.job_end_time)
        begun = {(job.window_start, job.job_start_time) for job in mine}
        for job in mine:
            before = job.window_start - 86_400
            in_one_pass = (before, job.job_start_time) in begun
            ended = None if in_one_pass else first_ends.get(before)
            if ended is not None and ended - set_back > job.job_start_time:
                found.append(f"{name}: job {job.job_id} began before its predecessor was done")
        for start in done:
            tokens = [job.fencing_token for job in mine if job.window_start == start]
            if any(a >= b for a, b in pairwise(tokens)):
                found.append(f"{name}: fencing tokens do not grow: {tokens}")
    return found


def _in_counts(scenario: Scenario, jobs: list[Any], steps: list[Any]) -> list[str]:
    """Counts in the log equal rows in the targets."""
    latest = {job.job_id for job in jobs if job.latest == 1}
    counted: Counter[str] = Counter()
    for step in steps:
        if step.job_id in latest and step.status == "SUCCESS":
            counted[step.step_id] += step.target_count or 0
    wanted = scenario.expected_counts()
    return [] if counted == wanted else [f"counts are {dict(counted)}, not {wanted}"]
