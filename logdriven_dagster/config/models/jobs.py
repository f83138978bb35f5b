"""Models of `jobs/*.yaml`: named sets of tables, and ordered maintenance steps.

Sources: Kettle, standard and maintenance workflows; DolphinScheduler, workflow definition.
"""

import dataclasses
from collections.abc import Mapping
from datetime import timedelta
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import BeforeValidator, Field, model_validator

from logdriven_dagster.config.models.cron import Cron
from logdriven_dagster.config.models.dependencies import Condition
from logdriven_dagster.config.models.fields import (
    DurationField,
    Model,
    Option,
    StepName,
    TableName,
    as_tuple,
)
from logdriven_dagster.config.models.notifications import NotifyRule
from logdriven_dagster.config.models.settings import RetryVersion, Settings
from logdriven_dagster.config.models.steps import PythonReference
from logdriven_dagster.model.upkeep import Compaction, Expiry


class Relation(Model):
    """Ordering within a job: table `to` waits for tables `from`, without reading them.

    Source: DolphinScheduler, relations between nodes: judgment and delay conditions.
    """

    upstream: Annotated[
        tuple[TableName, ...],
        BeforeValidator(as_tuple, json_schema_input_type=TableName | tuple[TableName, ...]),
    ] = Field(
        alias="from",
        min_length=1,
        description="the upstream tables",
        examples=["ods.orders"],
    )
    to: TableName = Field(description="the downstream table")
    condition: Condition = Field(
        "success",
        description="the required outcome of their windows: success; failure (after all "
        "retries); always (any outcome)",
    )
    delay: DurationField = Field(
        timedelta(0), description="the time to wait after the condition is met"
    )
    window: Literal["overlapping", "ended"] = Field(
        "overlapping", description="the upstream windows to wait for, as in depends_on"
    )


class _Job(Settings):
    job: StepName = Field(description="the job's name, in Dagster, too", examples=["nightly"])
    description: str | None = Field(
        None, description="a description of the job", examples=["All that sales needs by six."]
    )
    schedule: Cron | None = Field(
        None,
        description="the schedule: a cron expression in the project's time zone, or a word "
        "such as @daily",
        examples=["30 6 * * *"],
    )
    parameters: dict[str, Option] = Field(
        default_factory=dict,
        description="variables of this job's runs; those of a table take precedence",
        examples=[{"country": "NL"}],
    )
    notify: tuple[NotifyRule, ...] | None = Field(
        None,
        description="the recipients of notifications about runs; default: those of the "
        "project's defaults",
        examples=[[{"to": "ops"}]],
    )


class StandardJob(_Job):
    """A named set of tables, run in dependency order as one Dagster job."""

    type: Literal["standard"] = "standard"
    tables: tuple[TableName, ...] = Field(
        min_length=1, description="the tables of the job", examples=[["ods.orders", "dws.sales"]]
    )
    relations: tuple[Relation, ...] = Field(
        (),
        description="the dependencies in this job, in addition to depends_on of the tables",
        examples=[[{"from": "ods.orders", "to": "dws.sales"}]],
    )
    retry_version: RetryVersion = Field(
        "latest",
        description="the version of a table for retries of its failed windows, for tables "
        "without their own",
    )
    max_windows: int | None = Field(
        None, ge=1, description="the maximum number of windows per run", examples=[100]
    )
    max_parallel: int | None = Field(
        None,
        ge=1,
        description="the number of windows to run at the same time; default: the project's",
        examples=[4],
    )

    @model_validator(mode="after")
    def _check_relations(self) -> "StandardJob":
        edges = [(name, r.to, r.condition) for r in self.relations for name in r.upstream]
        if twice := sorted({edge for edge in edges if edges.count(edge) > 1}):
            names = ", ".join(f"{first} -> {to} on {condition}" for first, to, condition in twice)
            raise ValueError(f"relations: {names} is given twice; remove one")
        return self


Upkeep = Literal["expire_snapshots", "compact_files", "archive_log", "clean"]


class MaintenanceStep(Model):
    """A maintenance step: SQL on a connection, Spark SQL, a Python function or built-in upkeep."""

    exec_order: int = Field(ge=0, description="steps run in ascending order; gaps are allowed")
    step: StepName = Field(description="the step's name")
    enabled: bool = Field(True, description="false: the step is not run")
    sql: str | tuple[str, ...] | None = Field(
        None,
        description="statements for the connection, or for Spark without a connection",
        examples=["VACUUM orders"],
    )
    connection: str | None = Field(
        None, description="sql: the connection whose database executes it", examples=["shop"]
    )
    transaction: bool = Field(
        True,
        description="sql on a connection: commit all statements together; false: each by "
        "itself, as VACUUM requires",
    )
    python: PythonReference | None = Field(
        None, description="a function to call", examples=["own.py:tidy"]
    )
    upkeep: Upkeep | None = Field(
        None,
        description="a built-in task: expire_snapshots removes old versions of tables; "
        "compact_files merges small files; archive_log moves old attempts to "
        "archive tables; clean removes unused files",
    )
    tables: tuple[TableName, ...] = Field(
        (), description="upkeep: which tables; all by default", examples=[["ods.orders"]]
    )
    older_than: DurationField | None = Field(
        None,
        description="upkeep: the minimum age of files, snapshots or attempts to remove",
        examples=["30 days"],
    )
    options: dict[str, Option] = Field(
        default_factory=dict,
        description="upkeep, python: options of its own (docs/jobs.md)",
        examples=[{"keep": 5}],
    )

    @model_validator(mode="after")
    def _check_one_action(self) -> "MaintenanceStep":
        if sum(given is not None for given in (self.sql, self.python, self.upkeep)) != 1:
            raise ValueError("give one of sql, python and upkeep")
        if self.connection is not None and self.sql is None:
            raise ValueError("connection: only for sql")
        if not self.transaction and self.connection is None:
            raise ValueError("transaction: only for sql on a connection")
        if self.upkeep is not None:
            self._check_upkeep(self.upkeep)
        return self

    def _check_upkeep(self, upkeep: Upkeep) -> None:
        if upkeep == "archive_log" and (self.older_than or timedelta(0)) < timedelta(days=1):
            raise ValueError("older_than: must be at least 1 day for archive_log")
        known: Any = {"expire_snapshots": Expiry, "compact_files": Compaction}.get(upkeep, dict)
        fields = {field.name for field in dataclasses.fields(known)} if known is not dict else set()
        if unknown := sorted(self.options.keys() - fields):
            allowed = f"its options are {', '.join(sorted(fields)) or 'none'}"
            raise ValueError(f"options: {upkeep} has no option {', '.join(unknown)}; {allowed}")
        known(**self.options)  # raises an error for an invalid value


class MaintenanceJob(_Job):
    """Steps that run one after the other; a failed step aborts the run.

    Source: Kettle, maintenance workflow.
    """

    type: Literal["maintenance"]
    steps: tuple[MaintenanceStep, ...] = Field((), description="the steps of the job")

    @model_validator(mode="after")
    def _check_step_names(self) -> "MaintenanceJob":
        for name in ("exec_order", "step"):
            values = [getattr(step, name) for step in self.steps]
            if twice := sorted({value for value in values if values.count(value) > 1}):
                raise ValueError(f"steps: {name} {', '.join(map(str, twice))} is given twice")
        return self


JobConfig: TypeAlias = StandardJob | MaintenanceJob


def choose_job_model(values: "dict[str, Any]") -> type[StandardJob] | type[MaintenanceJob]:
    """Return the model of a job file; `standard` is the default type."""
    return MaintenanceJob if values.get("type") == "maintenance" else StandardJob


def apply_enabled_steps(job: JobConfig, settings: Mapping[str, Mapping[str, Any]]) -> JobConfig:
    """Return the job with its steps enabled or disabled as the registry sets `JOB.STEP`.

    `settings` maps `JOB.STEP` to the registry's columns; steps without an entry keep their value.
    """
    if not isinstance(job, MaintenanceJob):
        return job
    steps = tuple(
        step.model_copy(update={"enabled": bool(settings[name]["enabled"])})
        if (name := f"{job.job}.{step.step}") in settings
        else step
        for step in job.steps
    )
    return job if steps == job.steps else job.model_copy(update={"steps": steps})
