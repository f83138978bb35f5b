"""Summary of one run of a job."""

import time
from dataclasses import dataclass, field
from typing import Any

from logdriven_dagster.cli.shown.results import Tally
from logdriven_dagster.config.secrets import redact
from logdriven_dagster.errors import in_brief
from logdriven_dagster.execution.jobs.events import (
    JobEnded,
    JobEvent,
    JobStarted,
    StepEnded,
    StepStarted,
    StepTriedAgain,
)
from logdriven_dagster.model.attempts import Status


@dataclass
class JobTally:
    """The events of a run in progress, and its result."""

    name: str
    job_run_id: int | None = None
    status: str = Status.DISCARDED.value
    """The status of the run; DISCARDED if it was interrupted."""
    error: str | None = None
    blocked: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    steps: list[StepEnded] = field(default_factory=list)
    windows: Tally = field(default_factory=Tally)
    started: float = field(default_factory=time.monotonic)

    def add(self, event: JobEvent) -> None:
        """Add one event of a run of a job to the summary."""
        match event:
            case JobStarted(run=run, notes=notes):
                self.job_run_id, self.notes = run.job_run_id, notes
            case JobEnded(status=status, error=error, blocked=blocked):
                self.status, self.error, self.blocked = status.value, error, blocked
            case StepEnded():
                self.steps.append(event)
            case StepStarted() | StepTriedAgain():
                return
            case _:
                self.windows.add(event)

    @property
    def exit_code(self) -> int:
        """The exit code of the command: 1 unless the run succeeded."""
        return 0 if self.status == Status.SUCCESS.value else 1

    def format_sentence(self) -> str:
        """Return the result of the run in one line, with more lines on failure."""
        parts = [f"{self.name}: {self.status}"]
        if self.steps:
            done = sum(item.result.status is Status.SUCCESS for item in self.steps)
            parts.append(f"{done} steps done")
        summary = self.windows.summarize()
        if summary.results:
            parts.append(f"{summary.count('SUCCESS')} windows done, {summary.failed} failed")
        if self.blocked:
            parts.append(f"{len(self.blocked)} blocked")
        lines = [", ".join(parts), *([in_brief(self.error)] if self.error else [])]
        return redact("\n".join([*lines, *(f"BLOCKED  {line}" for line in self.blocked)]))

    def as_json(self) -> dict[str, Any]:
        """Return the object that `job run --json` prints."""
        return {
            "job": self.name,
            "job_run_id": self.job_run_id,
            "status": self.status,
            "error": self.error,
            "blocked": list(self.blocked),
            "warnings": list(self.notes),
            "seconds": round(time.monotonic() - self.started, 3),
            "steps": [
                {
                    "exec_order": item.step.exec_order,
                    "step": item.step.step,
                    "status": item.result.status.value,
                    "row_count": item.result.row_count,
                    "error_count": item.result.error_count,
                    "output": item.result.output,
                    "error": item.result.error,
                    "seconds": round(item.seconds, 3),
                }
                for item in self.steps
            ],
            "windows": [result.as_json() for result in self.windows.results],
        }
