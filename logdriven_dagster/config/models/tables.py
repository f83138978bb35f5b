"""Models of `tables/**/*.yaml`."""

from collections.abc import Iterator
from datetime import datetime, timedelta
from functools import cached_property
from typing import Annotated, Any, Literal
from zoneinfo import ZoneInfo

from pydantic import (
    BeforeValidator,
    Field,
    PrivateAttr,
    ValidationInfo,
    model_validator,
)
from pydantic.json_schema import WithJsonSchema

from logdriven_dagster.config.models.dependencies import (
    AssetDependency,
    Dependency,
    DependencyField,
)
from logdriven_dagster.config.models.fields import (
    WORDS,
    DurationField,
    InstantField,
    PeriodField,
    TableName,
)
from logdriven_dagster.config.models.frozen import Model, Option
from logdriven_dagster.config.models.incremental.freshness import CHECK, FreshnessField
from logdriven_dagster.config.models.incremental.registered import (
    IncrementalName,
    get_incremental_type,
    mistakes,
)
from logdriven_dagster.config.models.incremental.types import IncrementalType
from logdriven_dagster.config.models.notifications import NotifyRule
from logdriven_dagster.config.models.properties import Properties
from logdriven_dagster.config.models.rules import LATEST_REFRESH
from logdriven_dagster.config.models.settings import RetryVersion, Settings
from logdriven_dagster.config.models.steps import CheckConfig, StepConfig
from logdriven_dagster.config.models.types.targets import Target
from logdriven_dagster.config.secrets import show_value
from logdriven_dagster.config.yaml.field_names import Formerly
from logdriven_dagster.model.attempts import OnRunning
from logdriven_dagster.model.periods import Grid, Unit
from logdriven_dagster.model.windows import Along, Slice, TimeWindow, normalize_instant


def _parse_start(value: Any, info: ValidationInfo) -> Any:
    return get_incremental_type(info.data.get("incremental_type")).start(value, info)


StartField = Annotated[
    datetime | int | str,
    BeforeValidator(_parse_start),
    WithJsonSchema(
        {
            "anyOf": [{"type": "string"}, {"type": "integer"}, {"type": "object"}],
            "description": "2013-01-01 or 2013-01-01T06:00; the key after which to begin; "
            'earliest, latest or {"topic": {"0": 42}}',
            "examples": ["2013-01-01"],
            WORDS: "date or time, key, or offsets",
        }
    ),
]

CatchUp = Literal["all", "once", "latest_only"]
"""Windows that catching up processes: `all`, the first (`once`) or the newest (`latest_only`).

With `latest_only`, older windows are recorded as SKIPPED. Source: Sharp ETL.
"""


MissingColumns = Literal["refuse", "allow"]
SchemaRule = Literal["evolve", "frozen"]
"""Rule for changes of a table's columns: `frozen` ones are those that `columns` declares."""
OnSourceChange = Literal["report", "rerun", "ignore"]
RowsOutside = Literal["fail", "count", "ignore"]

BatchSize = Annotated[int, Field(ge=1)] | Literal["all", "auto"]
Preview = Annotated[int, Field(ge=0, le=50)]


class RestateRange(Model):
    """The finished windows by older versions that run again: those from a time on."""

    begin: InstantField | None = Field(
        None,
        alias="from",
        description="the windows that end after this time",
        examples=["2026-01-01"],
    )
    last: DurationField | None = Field(
        None,
        description="the windows that end within this time before now",
        examples=["30 days"],
    )

    @model_validator(mode="after")
    def _check_one_limit(self) -> "RestateRange":
        if (self.begin is None) == (self.last is None):
            raise ValueError("give either from or last; for all windows, write on_change: restate")
        return self


class OnChange(Model):
    """The action for finished windows when a change of the table makes them old."""

    restate: Literal["none", "all"] | RestateRange = Field(
        description="the finished windows by older versions that run again: all of them, or those "
        "from a time on",
        examples=[{"last": "30 days"}],
    )

    @property
    def restates(self) -> bool:
        """True if any window runs again."""
        return self.restate != "none"

    def includes(self, window: TimeWindow, now: datetime) -> bool:
        """Return True if a window by an older version runs again; numbered windows always do."""
        if not isinstance(self.restate, RestateRange) or isinstance(window, Slice):
            return self.restates
        limit = self.restate.begin or now - (self.restate.last or timedelta(0))
        return window.end > normalize_instant(limit)


def _convert_on_change(value: Any) -> Any:
    match value:
        case "keep":
            return {"restate": "none"}
        case "restate":
            return {"restate": "all"}
        case str() | int():
            raise ValueError(
                f"must be keep, restate or {{restate: {{last: 30 days}}}}, not {show_value(value)}"
            )
        case _:
            return value


OnChangeField = Annotated[
    OnChange,
    BeforeValidator(
        _convert_on_change, json_schema_input_type=Literal["keep", "restate"] | OnChange
    ),
]


class TableConfig(Settings):
    """One table file: one Dagster asset."""

    table: TableName = Field(
        description="the name in SQL, targets and Dagster; the part before the last dot is the "
        "group in Dagster"
    )
    renamed_from: TableName | None = Field(
        None,
        description="the name that the table had before: its windows, versions and rows "
        "continue under the new name",
        examples=["ods.sales"],
    )
    description: str | None = Field(
        None, description="a description of the table", examples=["One row per order."]
    )
    columns: str | None = Field(
        None,
        description="the columns of the rows that other tables read, with types and comments, as "
        "Spark DDL: a result with other columns is refused, and so is NULL in a column that is NOT "
        "NULL. A query that reads its own table begins with these columns and no rows",
        examples=["day DATE NOT NULL, total DECIMAL(12,2) COMMENT 'the sum of all days so far'"],
    )
    schema_rule: SchemaRule = Field(
        "evolve",
        alias="schema",
        description="frozen: the declared columns are a contract with the readers of the table. "
        "The result must have all of them, also with missing_columns: allow, and an edit that "
        "breaks them has the class contract in `logdriven changes`",
    )
    owners: tuple[str, ...] = Field(
        (),
        description="the owners, as shown in Dagster: email addresses or team:name",
        examples=[["team:sales"]],
    )
    tags: dict[str, str] = Field(
        default_factory=dict, description="tags of the asset in Dagster", examples=[{"pii": "yes"}]
    )
    incremental_type: IncrementalName = Field(
        "time_window",
        description="the kind of window: time_window (time); full (a snapshot of all rows); "
        "auto_inc_id (keys); kafka_offset (messages); files (new files); upstream "
        "(deliveries of other tables)",
    )
    period: PeriodField = Field(
        description="the length of a window; for tables without time windows, the interval "
        "between checks for new rows"
    )
    default_start: StartField | None = Field(
        None,
        description="the start of the first window: a time, required for tables with time "
        "windows; the key after which to begin; offsets, earliest or latest",
    )
    end: InstantField | None = Field(None, description="the end of the last window; default: none")
    delay: DurationField = Field(
        timedelta(0), description="the time after its end before a window can run"
    )
    lookback: int = Field(
        0, ge=0, description="the number of finished windows that run again with each new one"
    )
    ordered: bool = Field(True, description="a window runs only after all earlier ones succeeded")
    catch_up: CatchUp = Field(
        "all",
        description="the pending windows to run: all; once (only the oldest one); latest_only "
        "(the newest one; the others are recorded as SKIPPED)",
    )
    batch_size: BatchSize = Field(
        "auto",
        description="the number of adjoining pending windows to run as one Spark job, if the "
        "queries allow it: auto (a few first, then as many as the time and the rows of those "
        "suggest), all, or a number; `logdriven plan` shows the reason if they do not",
        examples=[30],
    )
    on_running: OnRunning = Field(
        OnRunning.SKIP,
        description="the action if another runner processes a window: skip it, fail, or "
        "replace the other attempt",
    )
    retry_version: RetryVersion = Field(
        "latest",
        description="the version of this table for retries of failed windows: the latest, or "
        "the version of the last attempt",
    )
    depends_on: tuple[DependencyField, ...] = Field(
        (),
        description="the tables that the queries read, by name or with conditions, and the "
        "assets of Dagster to wait for",
        examples=[["ods.orders", {"asset": "raw/codes"}]],
    )
    on_upstream_refresh: Literal["rerun", "ignore"] = Field(
        "rerun",
        description="for finished windows whose upstream window runs again: rerun them, or "
        "keep them",
    )
    on_source_change: OnSourceChange = Field(
        "report",
        description="for finished windows whose source files changed after they ran: report "
        "them, rerun them, or ignore the changes",
    )
    on_change: OnChangeField = Field(
        OnChange(restate="none"),
        description="for finished windows that older versions of the table made, after a change of "
        "its query: keep their rows, or restate them: run them again, oldest first",
        examples=["restate", {"restate": {"last": "30 days"}}],
    )
    window_size: int | None = Field(
        None,
        ge=1,
        description="auto_inc_id: the maximum number of keys per window",
        examples=[100000],
    )
    lag: int = Field(
        0,
        ge=0,
        description="auto_inc_id: the number of newest keys to leave for the next window",
        examples=[1000],
    )
    overlap: int = Field(
        0,
        ge=0,
        description="auto_inc_id: the number of keys before the window to read again",
        examples=[1000],
    )
    on_key_reset: Annotated[Literal["fail", "report"], Formerly("on_restart")] = Field(
        "fail",
        description="auto_inc_id: the action if the source ends below the keys that were read, "
        "or is empty: fail the window without reading; or report it and read only "
        "greater keys",
        examples=["report"],
    )
    max_offsets_per_window: int | None = Field(
        None,
        ge=1,
        description="kafka_offset: the maximum number of messages per window",
        examples=[1000000],
    )
    max_batches: int | None = Field(
        None,
        ge=1,
        description="files, upstream: the maximum number of deliveries that each step of a "
        "window takes from all its upstreams, and at least one from each; default: "
        "one from each for upstream tables without a cut_pattern, all for files "
        "tables",
        examples=[10],
    )
    missing_columns: MissingColumns = Field(
        "refuse",
        description="if the result, or a Parquet or ORC file of the source, lacks a former "
        "column or field of a struct: fail the window, or (allow) use NULL",
    )
    rows_outside: RowsOutside = Field(
        "count",
        description="for source rows outside any window (NULL, before default_start, after "
        "end): fail the window; count them where that is cheap, and by `logdriven "
        "audit`; or ignore them",
    )
    variables: dict[str, Option] = Field(
        default_factory=dict,
        description="values for this table: `${name}` in texts, `:name` in queries",
        examples=[{"country": "NL"}],
    )
    properties: Properties = Field(
        default_factory=dict,
        description="group → key → value; ${group.key} names one",
        examples=[{"limits": {"rows": 1000}}],
    )
    notify: tuple[NotifyRule, ...] = Field(
        (), description="the recipients of notifications about windows", examples=[[{"to": "ops"}]]
    )
    freshness: FreshnessField = Field(
        None,
        description="the deadline of a window after its end; auto: the delay and one period, "
        "but at most a day in addition to the delay; none: no deadline",
        examples=[{"within": "2 h"}, "auto"],
    )
    preview: Preview = Field(
        0,
        description="the number of rows of a window that Dagster shows, if they can be read "
        "without Spark; they are kept in Dagster's storage, so the default is none",
        examples=[5],
    )
    steps: tuple[StepConfig, ...] = Field(
        min_length=1, description="the steps of a window, in order"
    )
    checks: tuple[CheckConfig, ...] = Field(
        (), description="queries over the staged rows; a row that one returns stops publication"
    )
    _zone: ZoneInfo = PrivateAttr(ZoneInfo("UTC"))

    @model_validator(mode="after")
    def _check_consistency(self, info: ValidationInfo) -> "TableConfig":
        self._zone = (info.context or {}).get("zone", self._zone)
        names = [step.step for step in self.steps]
        if twice := {name for name in names if names.count(name) > 1}:
            raise ValueError(f"step names must differ: {', '.join(sorted(twice))}")
        if "source" in names:
            raise ValueError("a step must not have the name source, which is the input of a step")
        if not any(step.target for step in self.steps):
            raise ValueError("no step has a target; add `target: {type: iceberg}` to the last one")
        if self.schema_rule == "frozen" and not self.columns:
            raise ValueError("schema: frozen needs columns, the columns that are frozen")
        self._check_start()
        if contradictions := [
            *mistakes(self),
            *self._explain_history(),
            *self._explain_absent_freshness(),
        ]:
            raise ValueError("; ".join(contradictions))
        upstream = [dependency.upstream for dependency in self.depends_on]
        if twice := {name for name in upstream if upstream.count(name) > 1}:
            raise ValueError(f"depends_on: {', '.join(sorted(twice))} is listed twice; remove one")
        return self

    def _check_start(self) -> None:
        start = self.default_start
        if self.is_sliced:
            if self.end is not None:
                raise ValueError(f"end: not allowed for {self.incremental_type}")
            return
        if not isinstance(start, datetime):
            raise ValueError(
                "default_start: a table needs a first window; add `default_start: 2022-01-01`"
            )
        if self.period.unit is Unit.MONTH and start.day > 28:
            raise ValueError("default_start: a period of months must start on day 1 to 28")
        if self.end and normalize_instant(self.end) <= normalize_instant(start):
            raise ValueError("end: must be later than default_start")

    def _explain_history(self) -> Iterator[str]:
        """Yield each setting that contradicts a target that keeps the versions of rows."""
        if not self.keeps_history:
            return
        if self.is_sliced:
            yield (
                f"mode: history needs windows of time, in which its versions begin, not "
                f"incremental_type {self.incremental_type}; load the changes into a table of their "
                "own first"
            )
        if not self.ordered:
            yield "ordered: must be true for mode history, whose windows build on earlier ones"
        if self.lookback:
            yield (
                "lookback: not allowed for mode history; load the late rows into a table with "
                "lookback first, whose reruns also run the windows of this table again"
            )

    def _explain_absent_freshness(self) -> Iterator[str]:
        if self.freshness is not None:
            yield from self.freshness.contradictions(self.incremental, self.delay)
            if any(check.check == CHECK for check in self.checks):
                yield (
                    f"checks: {CHECK} is the name of the check for `freshness` in Dagster; choose "
                    "another name"
                )
        if any(check.check == LATEST_REFRESH for check in self.checks):
            taken = "is the name of the check for refreshes in Dagster; choose another name"
            yield f"checks: {LATEST_REFRESH} {taken}"

    @property
    def incremental(self) -> IncrementalType:
        """The incremental type: the kind of the windows and its rules."""
        return get_incremental_type(self.incremental_type)

    @property
    def is_sliced(self) -> bool:
        """True if windows are ranges of keys, offsets or batches instead of time."""
        return self.incremental.is_sliced

    @property
    def along(self) -> Along:
        """The dimension of a table's key, offset or batch ranges."""
        along = self.incremental.along
        assert along is not None
        return along

    @property
    def layer(self) -> str:
        """The part of the name before the last dot, or `default`: the Dagster group."""
        head, _, _ = self.table.rpartition(".")
        return head.replace(".", "_") or "default"

    @cached_property
    def grid(self) -> Grid:
        """The window grid of this table, starting at `default_start`.

        Without time windows: the times at which the table checks for new data, since 1970.
        """
        start = self.default_start
        if isinstance(start, datetime):
            return Grid(start, self.period, self.end)
        return Grid(datetime(1970, 1, 1, tzinfo=self._zone), self.period)

    @property
    def example_window(self) -> TimeWindow:
        """A window for the analysis of texts, which are alike for all windows."""
        if not self.is_sliced:
            return self.grid.window(0)
        return Slice.nth(0, *self.incremental.example, self.grid.zone, self.along)

    @property
    def keeps_history(self) -> bool:
        """True if a window builds on the versions of rows that earlier windows have written."""
        return any(step.target.write_mode.keeps_history for step in self.steps if step.target)

    @property
    def output(self) -> Target:
        """The dataset that other tables read by this table's name: the last step's target."""
        return next(step.target for step in reversed(self.steps) if step.target)

    @property
    def sliced_step(self) -> StepConfig:
        """The step whose source is read by range, for tables along keys, offsets or files."""
        cuts = self.incremental.cuts
        return next(step for step in self.steps if step.source and cuts(step.source))

    @property
    def batch_dependencies(self) -> tuple[Dependency, ...]:
        """The dependencies whose deliveries the table consumes; others are only read."""
        if not self.incremental.takes_upstream_batches:
            return ()
        return tuple(d for d in self.managed_dependencies if d.is_input)

    @cached_property
    def table_dependencies(self) -> tuple[Dependency, ...]:
        """The tables that this table depends on, managed by this project or not."""
        return tuple(d for d in self.depends_on if isinstance(d, Dependency))

    @cached_property
    def managed_dependencies(self) -> tuple[Dependency, ...]:
        """The tables of this project that this table depends on."""
        return tuple(dependency for dependency in self.table_dependencies if dependency.managed)

    @cached_property
    def asset_dependencies(self) -> tuple[AssetDependency, ...]:
        """The Dagster assets that this table waits for."""
        return tuple(d for d in self.depends_on if isinstance(d, AssetDependency))
