"""What a table depends on: upstream tables and assets, and which of their windows it awaits."""

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
"""Source: DolphinScheduler, judgment conditions of relations."""


class Dependency(Model):
    """An upstream table and which of its windows a window waits for and reads.

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
        """The name in the run log."""
        return self.table

    @property
    def is_awaited(self) -> bool:
        """Whether a window waits for windows of the table."""
        return self.managed and self.window != "none"

    @property
    def is_input(self) -> bool:
        """Whether rows are made from the awaited windows, so that new ones make them stale.

        What is done after a failure is not undone by the success that follows.
        """
        return self.window != "none" and self.read != "none" and self.condition != "failure"


AssetName = Annotated[
    str,
    StringConstraints(pattern=r"^[^\s/\"']+(/[^\s/\"']+)*$", max_length=90),
    Field(examples=["raw/events"]),
]
"""The key of an asset of Dagster, its parts divided by slashes."""


_ASSET = "asset "


def is_asset(upstream: str) -> bool:
    """Whether a name in the run log is an asset's."""
    return upstream.startswith(_ASSET)


class AssetDependency(Model):
    """An asset of Dagster that is none of our tables, and must be materialized before a window.

    Runs and sensors of Dagster note in the run log what is materialized, so that the command line,
    which knows no Dagster, waits for it as well. An asset without partitions holds everything up
    to the moment at which it was materialized. All tables must say the same of its partitions.
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
        """The name in the run log; no table is called so, since it holds a space."""
        return f"{_ASSET}{self.asset}"

    @property
    def is_input(self) -> bool:
        """Whether rows are made from the partitions over a window, so that new ones count."""
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
