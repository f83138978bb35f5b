"""Orders: a window to run, with its table, arguments and trigger."""

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from logdriven_dagster.config.models.steps import StepConfig
from logdriven_dagster.config.models.tables import TableConfig
from logdriven_dagster.config.project import Project
from logdriven_dagster.config.secrets import redact_values
from logdriven_dagster.execution.arguments import RunArguments, chosen_steps
from logdriven_dagster.execution.window.sessions import WindowSession
from logdriven_dagster.model.attempts import Trigger
from logdriven_dagster.model.runs import Staged
from logdriven_dagster.model.windows import TimeWindow


def _stage(session: WindowSession, step: StepConfig) -> tuple[Staged, ...]:
    return session.stage(step)


_STAGING_FIELDS = {"table", "period", "properties", "steps", "checks"}
"""The fields of a table that determine its steps."""


@dataclass(frozen=True, slots=True)
class Order:
    """A window of a table to run, with its trigger and the changes of this run."""

    project: Project
    """The project in which this attempt runs its table and files, possibly an earlier version."""
    table: TableConfig
    window: TimeWindow
    trigger: Trigger
    now: datetime
    arguments: RunArguments = RunArguments()
    passed_over: Sequence[TimeWindow] = ()
    """Older windows to record as SKIPPED with it."""
    stage: Callable[[WindowSession, StepConfig], tuple[Staged, ...]] = _stage

    @property
    def tables(self) -> Mapping[str, TableConfig]:
        """All tables by name, this one as it runs; a copy only if it differs from the project's."""
        known, name = self.project.tables, self.table.table
        return known if known.get(name) is self.table else {**known, name: self.table}

    @property
    def steps(self) -> tuple[StepConfig, ...]:
        """The steps to run. Raises UsageError if the arguments leave none."""
        return chosen_steps(self.table, self.arguments)

    @property
    def parameters(self) -> dict[str, str | int | float | bool]:
        """The variables of the window, as `job_log.parameters` stores them.

        Secrets are `${env:NAME}`, as they were written. Source: DolphinScheduler, parameters frozen
        in an instance.
        """
        own = {**self.table.variables, **self.arguments.overrides}
        return redact_values({**self.project.config.variables, **own})

    @property
    def other_version(self) -> str | None:
        """The version of the table that it runs, in words, if it differs from the file."""
        return self.project.other_versions.get(self.table.table)

    @property
    def runtime_args(self) -> dict[str, str]:
        """The special arguments of the attempt, as `job_log.runtime_args` stores them."""
        other = {"--definition": self.other_version} if self.other_version else {}
        return self.arguments.build_record() | other

    @property
    def made_outside(self) -> bool:
        """True if the rows are a user's DataFrame, whose query is unknown."""
        return self.stage is not _stage

    @property
    def definition(self) -> str | None:
        """A digest of the steps' definitions; None if it is unknown, for rows made outside."""
        if self.made_outside:
            return None
        project = self.project
        folder = project.files[self.table.table].parent
        parts = [
            self.table.model_dump_json(include=_STAGING_FIELDS),
            *(project.step_sql(self.table, step) or "" for step in self.table.steps),
            *(_code(folder, step.python) for step in self.table.steps),
            json.dumps(project.variables(self.table), sort_keys=True, default=str),
            json.dumps(self.arguments.build_record(), sort_keys=True),
            *(f"{name} {rule!r}" for name, rule in project.config.quality_rules.items()),
            *(_code(folder, reference) for reference in _python_rules(project, self.table)),
        ]
        return hashlib.sha256("\0".join(parts).encode()).hexdigest()


def _python_rules(project: Project, table: TableConfig) -> list[str]:
    """Return the functions of quality rules that are named in files."""
    uses = [use for step in table.steps if step.quality for _, _, use in step.quality.uses()]
    given = [use.python for use in uses] + [r.python for r in project.config.quality_rules.values()]
    return [reference for reference in given if reference is not None]


def _code(folder: Path, reference: str | None) -> str:
    """Return the text of a Python file in the table's folder; empty for a module."""
    file = folder / (reference or "").rpartition(":")[0]
    return file.read_text(encoding="utf-8") if reference and file.is_file() else ""
