"""Arguments of a run: its changes to the windows, or the job, that it runs."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, get_args

from logdriven_dagster.config.models.settings import RetryVersion
from logdriven_dagster.config.models.steps import StepConfig
from logdriven_dagster.config.models.tables import BatchSize, TableConfig
from logdriven_dagster.config.secrets import has_reference, redact_values
from logdriven_dagster.errors import UsageError
from logdriven_dagster.model.attempts import OnRunning
from logdriven_dagster.model.job_runs import JobRun, StartedBy


@dataclass(frozen=True, slots=True)
class RunArguments:
    """The changes of one run to the windows that it runs. Source: Sharp ETL, command line."""

    overrides: Mapping[str, str] = field(default_factory=dict)
    """Variables that override the project's and the table's."""
    from_step: str | None = None
    exclude_steps: frozenset[str] = frozenset()
    on_running: OnRunning | None = None
    """Overrides the tables' own setting."""
    retry_version: RetryVersion | None = None
    """Overrides the tables' own setting."""
    job_run: JobRun | None = None
    """The job run that starts the windows."""
    batch_size: BatchSize | None = None
    """Overrides the tables' own setting. It changes only how many windows run together."""

    def __post_init__(self) -> None:
        _refuse_references(self.overrides)

    def build_record(self) -> dict[str, str]:
        """Return the arguments as `job_log.runtime_args` stores them, without secrets."""
        record: dict[str, str] = {k: str(v) for k, v in redact_values(self.overrides).items()}
        record |= {"--from-step": self.from_step} if self.from_step else {}
        record |= {"--on-running": self.on_running.value} if self.on_running else {}
        excluded = ",".join(sorted(self.exclude_steps))
        return record | ({"--exclude-steps": excluded} if excluded else {})


@dataclass(frozen=True, slots=True)
class JobArguments:
    """The changes of one run to the job that it runs."""

    type: Literal["standard", "maintenance"] | None = None
    """The expected type of the job. Source: Kettle, a workflow for each type."""
    trigger: StartedBy = "manual"
    overrides: Mapping[str, str] = field(default_factory=dict)
    """Variables that override all others."""
    max_windows: int | None = None
    max_parallel: int | None = None
    from_start: bool = False
    from_step: str | None = None
    retry_version: RetryVersion | None = None
    """Overrides the setting of the job and the tables."""

    def __post_init__(self) -> None:
        _refuse_references(self.overrides)

    def foreign_to(self, kind: str) -> list[str]:
        """Return the given options that jobs of this type do not have."""
        given = {
            "--max-windows": self.max_windows is not None and kind == "maintenance",
            "--max-parallel": self.max_parallel is not None and kind == "maintenance",
            "--from-start": self.from_start and kind == "standard",
            "--from-step": self.from_step is not None and kind == "standard",
            "--retry-version": self.retry_version is not None and kind == "maintenance",
        }
        return [option for option, wrong in given.items() if wrong]


def retry_version_of(text: str | None, place: str) -> RetryVersion | None:
    """Parse a `retry_version`. Raises UsageError, with `place`, for an unknown value."""
    for known in get_args(RetryVersion):
        if text == known:
            return known  # type: ignore[no-any-return]
    if text is None:
        return None
    raise UsageError(f"{place}: must be latest or recorded, not {text!r}")


def _refuse_references(overrides: Mapping[str, str]) -> None:
    """Raise UsageError for a reference: a run could read any environment variable through it."""
    for name, value in overrides.items():
        if has_reference(value):
            raise UsageError(
                f"override {name}: ${{env:…}} and ${{file:…}} are resolved only in the "
                f"project's files, not in overrides; declare a variable that has {value}"
            )


def chosen_steps(table: TableConfig, arguments: RunArguments) -> tuple[StepConfig, ...]:
    """Return the steps of a table that a run processes.

    Raises UsageError for unknown steps, and if no step with a target is left.
    """
    names = [step.step for step in table.steps]
    asked = {*arguments.exclude_steps, *([arguments.from_step] if arguments.from_step else [])}
    if unknown := asked - set(names):
        known = f"its steps are {', '.join(names)}"
        raise UsageError(f"{table.table} has no step {', '.join(sorted(unknown))}; {known}")
    first = names.index(arguments.from_step) if arguments.from_step else 0
    # A step without a target is only a view: later steps may read it, and it costs nothing.
    chosen = tuple(
        step
        for n, step in enumerate(table.steps)
        if (n >= first and step.step not in arguments.exclude_steps) or step.target is None
    )
    if not any(step.target for step in chosen):
        raise UsageError(
            f"no step of {table.table} that has a target is left to run; leave out fewer steps"
        )
    return chosen
