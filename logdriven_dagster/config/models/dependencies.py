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
from logdriven_dagster.model.batches import compiled_pattern


def _compiles(pattern: str) -> str:
    compiled_pattern(pattern)
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
        description="what an upstream window has to have come to: success; failure, after all "
        "tries; always, whatever it came to",
    )
    delay: DurationField = Field(timedelta(0), description="how long to wait after that")
    managed: bool = Field(
        True, description="false: a table outside this project, which counts as complete"
    )
    window: Literal["overlapping", "ended", "newest", "none"] = Field(
        "overlapping",
        description="overlapping: every upstream window over this one has succeeded, of a full "
        "upstream any; ended: every upstream window up to this one's end has, one still open is "
        "not awaited; newest: of a full upstream a snapshot as new as this window; "
        "none: no waiting",
    )
    read: Literal["window", "all", "none"] = Field(
        "window",
        description="what the table's name means in SQL: the awaited windows, all rows, or "
        "nothing: it is only waited for",
    )
    skipped: Literal["ignore", "wait"] = Field(
        "ignore",
        description="an upstream window that an operator has skipped (`logdriven skip`): ignore: "
        "it is not awaited, and the rows that are there are read; wait: until it has succeeded",
    )
    step: StepName | None = Field(
        None,
        description="incremental_type upstream: the step that consumes the batches; the first one "
        "by default",
    )
    cut_pattern: Annotated[str, AfterValidator(_compiles)] | None = Field(
        None,
        description="incremental_type upstream: a window takes all batches up to and including "
        "the first whose marking has this: a regular expression, or after `like:` a pattern of "
        "SQL's LIKE for the whole marking",
        examples=["T23$"],
    )

    @model_validator(mode="after")
    def _waits_where_it_says_how(self) -> "Dependency":
        if self.condition == "success" and not self.delay:
            return self
        if not self.managed:
            raise ValueError(
                "condition and delay: how tables outside this project end is not known"
            )
        if self.window == "none":
            raise ValueError("condition and delay: with `window: none` nothing is waited for")
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

    asset: AssetName = Field(description="the asset's key, its parts divided by slashes")
    window: Literal["overlapping", "any"] = Field(
        "overlapping",
        description="overlapping: every partition over the window is materialized; of an asset "
        "without partitions, it was materialized after the window's end; any: it has been "
        "materialized at all",
    )
    period: PeriodField | None = Field(
        None,
        description="how much time a partition covers: needed if the asset is of another code "
        "location, and its partitions are awaited",
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


def _dependency(value: Any) -> Any:
    return {"table": value} if isinstance(value, str) else value


def _kind(value: Any) -> str:
    of_asset = "asset" in value if isinstance(value, dict) else isinstance(value, AssetDependency)
    return (AssetDependency if of_asset else Dependency).__name__


DependencyField = Annotated[
    Annotated[Dependency, Tag(Dependency.__name__)]
    | Annotated[AssetDependency, Tag(AssetDependency.__name__)],
    Discriminator(_kind),
    BeforeValidator(_dependency, json_schema_input_type=str | Dependency | AssetDependency),
]
