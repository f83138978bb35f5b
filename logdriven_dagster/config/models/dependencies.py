"""Dependencies of a table: upstream tables, Dagster assets, and the windows it waits for."""

from datetime import timedelta
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Discriminator,
    Field,
    StringConstraints,
    Tag,
    model_validator,
)

from logdriven_dagster.config.models.fields import (
    DurationField,
    Model,
    PeriodField,
    StepName,
    TableName,
    ZoneField,
)
from logdriven_dagster.model.batches import compile_pattern


def _validate_pattern(pattern: str) -> str:
    compile_pattern(pattern)
    return pattern


Condition = Literal["success", "failure", "always"]
"""Upstream outcome that makes a window ready. Source: DolphinScheduler, relation conditions."""


class Dependency(Model):
    """An upstream table, and the windows of it that a window waits for and reads.

    Source: Sharp ETL, dependencies across frequencies; Kettle, `tbl_from_is_etl`.
    """

    table: TableName = Field(description="the upstream table's name")
    condition: Condition = Field(
        "success",
        description="the required outcome of an upstream window: success; failure (after all "
        "retries); always (any outcome)",
    )
    delay: DurationField = Field(
        timedelta(0), description="the time to wait after the condition is met"
    )
    managed: bool = Field(
        True, description="false: the table is outside this project and counts as complete"
    )
    window: Literal["overlapping", "ended", "newest", "none"] = Field(
        "overlapping",
        description="overlapping: wait until every upstream window that overlaps this one has "
        "succeeded (any window of a full upstream); ended: wait for every upstream "
        "window up to this one's end, except one that is still open; newest: wait "
        "for a snapshot of a full upstream that is as new as this window; none: do "
        "not wait",
    )
    read: Literal["window", "all", "none"] = Field(
        "window",
        description="the rows that the table's name means in SQL: the awaited windows, all "
        "rows, or none (only wait for it)",
    )
    skipped: Literal["ignore", "wait"] = Field(
        "ignore",
        description="for upstream windows that an operator has skipped (`logdriven skip`): "
        "ignore: do not wait, read the existing rows; wait: wait until they have "
        "succeeded",
    )
    step: StepName | None = Field(
        None,
        description="incremental_type upstream: the step that consumes the deliveries; the "
        "first one by default",
    )
    cut_pattern: Annotated[str, AfterValidator(_validate_pattern)] | None = Field(
        None,
        description="incremental_type upstream: a window takes all deliveries up to and "
        "including the first whose marking matches: a regular expression, or after "
        "`like:` a LIKE pattern for the whole marking",
        examples=["T23$"],
    )

    @model_validator(mode="after")
    def _check_waiting(self) -> "Dependency":
        if self.condition == "success" and not self.delay:
            return self
        if not self.managed:
            raise ValueError(
                "condition and delay: the status of tables outside this project is unknown"
            )
        if self.window == "none":
            raise ValueError("condition and delay: cannot be combined with `window: none`")
        return self

    @property
    def upstream(self) -> str:
        """Name of the upstream table in the run log."""
        return self.table

    @property
    def is_awaited(self) -> bool:
        """True if windows wait for windows of this upstream table."""
        return self.managed and self.window != "none"

    @property
    def is_input(self) -> bool:
        """True if rows are computed from upstream windows, whose reruns make them stale.

        Excludes `condition: failure`: a later upstream success does not undo a failure handler.
        """
        return self.window != "none" and self.read != "none" and self.condition != "failure"


AssetName = Annotated[
    str,
    StringConstraints(pattern=r"^[^\s/\"']+(/[^\s/\"']+)*$", max_length=90),
    Field(examples=["raw/events"]),
]
"""Key of a Dagster asset, its parts separated by slashes."""


_ASSET = "asset "


def is_asset(upstream: str) -> bool:
    """Return True if a name in the run log is that of a Dagster asset."""
    return upstream.startswith(_ASSET)


class AssetDependency(Model):
    """A Dagster asset outside this project that must be materialized before a window runs.

    Dagster runs and sensors record materializations in the run log, so that the command line can
    wait for them without importing Dagster. An unpartitioned asset covers all data up to the time
    of its last materialization. All tables must declare the same partitions for an asset.
    """

    asset: AssetName = Field(description="the asset's key, its parts separated by slashes")
    window: Literal["overlapping", "any"] = Field(
        "overlapping",
        description="overlapping: every partition that overlaps the window is materialized, or "
        "an asset without partitions was materialized after the window's end; any: "
        "it was materialized at any time",
    )
    period: PeriodField | None = Field(
        None,
        description="the length of a partition; required for an asset of another code location "
        "whose partitions are awaited",
        examples=["1 hour"],
    )
    timezone: ZoneField | None = Field(
        None,
        description="the time zone of the partitions' keys, if the asset is of another code "
        "location; the project's by default",
        examples=["UTC"],
    )

    @property
    def upstream(self) -> str:
        """Name of the asset in the run log; the space in it keeps it distinct from table names."""
        return f"{_ASSET}{self.asset}"

    @property
    def is_input(self) -> bool:
        """True if rows are computed from the partitions that overlap a window.

        New materializations of such partitions make the window stale.
        """
        return self.window == "overlapping"


def _convert_dependency(value: Any) -> Any:
    return {"table": value} if isinstance(value, str) else value


def _get_kind(value: Any) -> str:
    of_asset = "asset" in value if isinstance(value, dict) else isinstance(value, AssetDependency)
    return (AssetDependency if of_asset else Dependency).__name__


DependencyField = Annotated[
    Annotated[Dependency, Tag(Dependency.__name__)]
    | Annotated[AssetDependency, Tag(AssetDependency.__name__)],
    Discriminator(_get_kind),
    BeforeValidator(_convert_dependency, json_schema_input_type=str | Dependency | AssetDependency),
]
