"""The models of `logdriven.yaml`, `tables/**/*.yaml` and `jobs/*.yaml`."""

from datetime import timedelta
from functools import cached_property
from typing import Annotated, Any, Literal
from zoneinfo import ZoneInfo

from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from logdriven_dagster.config.fields import (
    DurationField,
    Model,
    MomentField,
    PeriodField,
    StepName,
    TableName,
    ZoneField,
)
from logdriven_dagster.config.steps import CheckConfig, Option, StepConfig, Target
from logdriven_dagster.model.attempts import OnRunning
from logdriven_dagster.model.periods import Grid, Unit


class Dependency(Model):
    """An upstream table and which of its windows a window waits for and reads.

    Source: Sharp ETL, dependencies across frequencies; Kettle, `tbl_from_is_etl`.
    """

    table: TableName
    condition: Literal["success"] = "success"
    managed: bool = Field(True, description="false: not ours, counts as complete")
    window: Literal["overlapping", "ended", "none"] = Field(
        "overlapping",
        description="overlapping: every upstream window over this one has succeeded; "
        "ended: every upstream window up to this one's end has, one still open is not awaited; "
        "none: no waiting",
    )
    read: Literal["window", "all"] = Field(
        "window", description="what the table's name means in SQL: the awaited windows, or all rows"
    )


def _dependency(value: Any) -> Any:
    return {"table": value} if isinstance(value, str) else value


DependencyField = Annotated[
    Dependency, BeforeValidator(_dependency, json_schema_input_type=str | Dependency)
]

CatchUp = Literal["all", "once", "latest_only"]
"""`all` pending windows; the first one only (`once`); or the newest only, the older ones recorded
as SKIPPED (`latest_only`). Source: Sharp ETL."""


class TableConfig(Model):
    """One table file: one Dagster asset."""

    table: TableName
    description: str | None = None
    owners: tuple[str, ...] = ()
    tags: dict[str, str] = Field(default_factory=dict)
    incremental_type: Literal["time_window", "full"] = "time_window"
    period: PeriodField
    default_start: MomentField
    end: MomentField | None = Field(None, description="no window ends later; none by default")
    delay: DurationField = timedelta(0)
    lookback: int = Field(0, ge=0, description="finished windows that run again with each new one")
    ordered: bool = Field(True, description="a window runs only after all earlier ones succeeded")
    catch_up: CatchUp = "all"
    retries: int = Field(0, ge=0, description="tries after the first, for transient errors")
    retry_interval: DurationField = timedelta(0)
    timeout: DurationField | None = Field(None, description="the longest an attempt should take")
    timeout_strategy: Literal["warn", "fail", "both"] = Field(
        "fail", description="what happens then: a warning, or the attempt is stopped and fails"
    )
    on_running: OnRunning = Field(
        OnRunning.SKIP,
        description="what a start does about a window that is running elsewhere: "
        "skip it, fail, or replace the other attempt",
    )
    depends_on: tuple[DependencyField, ...] = ()
    on_upstream_refresh: Literal["rerun", "ignore"] = "rerun"
    variables: dict[str, Option] = Field(default_factory=dict)
    steps: tuple[StepConfig, ...] = Field(min_length=1)
    checks: tuple[CheckConfig, ...] = ()

    @model_validator(mode="after")
    def _consistent(self) -> "TableConfig":
        names = [step.step for step in self.steps]
        if twice := {name for name in names if names.count(name) > 1}:
            raise ValueError(f"step names must differ: {', '.join(sorted(twice))}")
        if "source" in names:
            raise ValueError("a step must not be called source: it is the name of a step's input")
        if not any(step.target for step in self.steps):
            raise ValueError("no step has a target")
        if self.period.unit is Unit.MONTH and self.default_start.day > 28:
            raise ValueError("default_start: a period of months starts on day 1 to 28")
        if self.end and self.end <= self.default_start:
            raise ValueError("end: it must be later than default_start")
        upstream = [dependency.table for dependency in self.depends_on]
        if twice := {name for name in upstream if upstream.count(name) > 1}:
            raise ValueError(f"depends_on: listed twice: {', '.join(sorted(twice))}")
        return self

    @property
    def layer(self) -> str:
        """The part of the name before the last dot, or `default`: the Dagster group."""
        head, _, _ = self.table.rpartition(".")
        return head.replace(".", "_") or "default"

    @cached_property
    def grid(self) -> Grid:
        """The windows of this table, counted from `default_start`."""
        return Grid(self.default_start, self.period, self.end)

    @property
    def output(self) -> Target:
        """What other tables read under this table's name: the target of the last step with one."""
        return next(step.target for step in reversed(self.steps) if step.target)

    @property
    def managed_dependencies(self) -> tuple[Dependency, ...]:
        return tuple(dependency for dependency in self.depends_on if dependency.managed)


class JobConfig(Model):
    """A named set of tables, run in dependency order as one Dagster job."""

    job: StepName
    description: str | None = None
    type: Literal["standard"] = "standard"
    tables: tuple[TableName, ...] = Field(min_length=1)
    max_windows: int | None = Field(None, ge=1, description="the most windows one run attempts")
    schedule: str | None = Field(None, description="a cron expression in the project's time zone")


class SparkConfig(Model):
    """The Spark session of a run."""

    master: str = "local[*]"
    app_name: str | None = Field(None, description="the project's name by default")
    config: dict[str, Option] = Field(default_factory=dict)


class JdbcConfig(Model):
    """What Spark needs where it cannot be told from the SQLAlchemy URL."""

    url: str | None = None
    driver: str | None = None
    options: dict[str, Option] = Field(default_factory=dict)


class ConnectionConfig(Model):
    """A database: an SQLAlchemy URL, from which the JDBC URL and driver follow."""

    url: str = Field(description="postgresql://user:${env:PASSWORD}@host/database, sqlite:///…")
    jdbc: JdbcConfig = JdbcConfig()


class Defaults(Model):
    """Values for every table that does not set its own."""

    owners: tuple[str, ...] | None = None
    tags: dict[str, str] | None = None
    period: PeriodField | None = None
    default_start: MomentField | None = None
    end: MomentField | None = None
    delay: DurationField | None = None
    retries: int | None = None
    retry_interval: DurationField | None = None
    timeout: DurationField | None = None
    timeout_strategy: Literal["warn", "fail", "both"] | None = None
    on_running: OnRunning | None = None
    ordered: bool | None = None
    on_upstream_refresh: Literal["rerun", "ignore"] | None = None


class SensorConfig(Model):
    """The catch-up sensor."""

    enabled: bool = Field(False, description="whether a new deployment starts with it running")
    interval: DurationField = timedelta(minutes=1)
    max_windows: int = Field(200, ge=1, description="the most windows one requested run attempts")


def _long_enough(lease: timedelta) -> timedelta:
    if lease < timedelta(seconds=1):
        raise ValueError("it must be at least 1 s; less than a few heartbeats ends healthy runs")
    return lease


class ProjectConfig(Model):
    """`logdriven.yaml`."""

    project: StepName
    timezone: ZoneField = ZoneInfo("UTC")
    run_log: str = Field(
        "sqlite:///.logdriven/run_log.db", description="SQLAlchemy URL; relative to the project"
    )
    warehouse: str = Field(".logdriven/warehouse", description="folder; relative to the project")
    catalog: str | None = Field(
        None, description="SQLAlchemy URL of the Iceberg catalog; a SQLite file in the warehouse"
    )
    variables: dict[str, Option] = Field(default_factory=dict)
    spark: SparkConfig = SparkConfig()
    connections: dict[str, ConnectionConfig] = Field(default_factory=dict)
    defaults: Defaults = Defaults()
    sensor: SensorConfig = SensorConfig()
    lease: Annotated[DurationField, AfterValidator(_long_enough)] = Field(
        timedelta(minutes=1),
        description="how long a runner may be silent before others take its windows over",
    )
