"""Runs of jobs, and what the log of jobs says of them."""

from logdriven_dagster.execution.arguments import JobArguments
from logdriven_dagster.execution.jobs.events import JobEnded
from logdriven_dagster.execution.jobs.standard import run_job
from tests.execution.conftest import NOW


def run(world, name="nightly", **arguments):
    return list(run_job(world.runner, name, NOW, JobArguments(**arguments)))


def runs(world, name="nightly"):
    """The rows of a job's log, oldest first."""
    with world.runner.run_log.read() as conn:
        rows = conn.exec_driver_sql(
            f"SELECT job_run_id, status, error, run_trigger, end_time, parameters FROM job_run "
            f"WHERE job_name = '{name}' ORDER BY job_run_id"
        )
        return [dict(row._mapping) for row in rows]


def ended(events):
    (last,) = [event for event in events if isinstance(event, JobEnded)]
    assert last is events[-1]
    return last.status.value
