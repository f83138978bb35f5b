"""Events of running jobs, as values: the CLI prints them, Dagster records them."""

from dataclasses import dataclass
from typing import TypeAlias

from logdriven_dagster.execution.events import WindowEvent
from logdriven_dagster.model.attempts import Status
from logdriven_dagster.model.job_runs import JobRun, JobStepResult, RunStep
from logdriven_dagster.planning.plan import Plan


@dataclass(frozen=True, slots=True)
class JobStarted:
    """A job run has begun; its row is RUNNING."""

    run: JobRun
    notes: tuple[str, ...] = ()
    """The omitted tables, with reasons, for the log of the run."""
    plan: Plan | None = None
    """The plan of a standard job."""


@dataclass(frozen=True, slots=True)
class StepStarted:
    """A step of a maintenance job has begun."""

    step: RunStep


@dataclass(frozen=True, slots=True)
class StepTriedAgain:
    """A try of a step failed, and a retry follows."""

    step: RunStep
    error: str
    error_count: int


@dataclass(frozen=True, slots=True)
class StepEnded:
    """A step has succeeded, or failed finally, which ends the run."""

    step: RunStep
    result: JobStepResult
    seconds: float


@dataclass(frozen=True, slots=True)
class JobEnded:
    """The job run is SUCCESS or FAILURE in the log."""

    run: JobRun
    status: Status
    error: str | None
    seconds: float
    blocked: tuple[str, ...] = ()
    """The blocked tables, each with its first pending window and the reason."""


StepEvent: TypeAlias = StepStarted | StepTriedAgain | StepEnded
JobEvent: TypeAlias = JobStarted | StepEvent | JobEnded | WindowEvent
