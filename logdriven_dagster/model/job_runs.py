"""Runs of jobs as values: `job_run` and `job_run_step`. Source: Kettle, job log and table log."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Literal, TypeAlias

from logdriven_dagster.model.attempts import Owner, Status

StartedBy: TypeAlias = Literal["manual", "schedule", "sensor"]
"""Initiator of a run, `job_run.run_trigger`."""


@dataclass(frozen=True, slots=True)
class RunStep:
    """A step of a maintenance job in one of its runs."""

    exec_order: int
    step: str


@dataclass(frozen=True, slots=True)
class JobRequest:
    """A request to run a job, with all that its `job_run` row records at the start."""

    job: str
    code: str
    """The job's code in the registry."""
    type: str
    project: str
    owner: Owner
    trigger: StartedBy = "manual"
    parameters: Mapping[str, str | int | float | bool] = field(default_factory=dict)
    """Parameters that the job passes to its tables or steps; secrets as `${env:NAME}`."""
    steps: tuple[RunStep, ...] = ()
    """The steps that this run of a maintenance job will take, in order."""
    lease: timedelta = timedelta(minutes=1)
    """Time without a heartbeat after which the run is considered dead."""


@dataclass(frozen=True, slots=True)
class JobRun:
    """A started run: one `job_run` row in status RUNNING, which is its lease."""

    job_run_id: int
    request: JobRequest
    fencing_token: int
    """Greater than the token of any earlier run of the job; guards every later write."""

    def __str__(self) -> str:
        return f"run {self.job_run_id} of {self.job}"

    @property
    def row_id(self) -> int:
        return self.job_run_id

    @property
    def lease(self) -> timedelta:
        return self.request.lease

    @property
    def job(self) -> str:
        return self.request.job


@dataclass(frozen=True, slots=True)
class JobStepResult:
    """Outcome of a step of a maintenance job."""

    status: Status
    row_count: int = 0
    output: str = ""
    error: str | None = None
    error_count: int = 0
    """Failed tries, kept after a success. Source: Kettle, `error_count`."""
