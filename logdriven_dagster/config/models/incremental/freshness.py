"""Freshness policy of a table (`freshness`): the deadline of its windows."""

from collections.abc import Iterator
from datetime import timedelta
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, model_validator

from logdriven_dagster.config.models.fields import DurationField
from logdriven_dagster.config.models.frozen import Model
from logdriven_dagster.config.models.incremental.types import IncrementalType
from logdriven_dagster.config.secrets import show_value
from logdriven_dagster.config.yaml.field_names import Formerly

CHECK = "freshness"
"""Name of the asset check in Dagster that shows freshness."""


class FreshnessConfig(Model):
    """Maximum time between the end of a window and its success.

    Default of `within`: the table's delay plus one period, but at most delay plus one day.
    """

    within: DurationField | None = Field(
        None,
        description="the time after which it is late; default: as `freshness: auto`",
        examples=["2 h"],
    )
    warn: DurationField | None = Field(
        None,
        description="the time after which a warning is shown; must be shorter than within",
        examples=["90 min"],
    )

    @model_validator(mode="after")
    def _check_within(self) -> "FreshnessConfig":
        if self.within == timedelta(0):
            raise ValueError("within: must be longer than 0; a window needs time to run")
        if self.warn and self.within and self.warn >= self.within:
            raise ValueError("warn: must be shorter than within, after which it is late")
        return self

    def contradictions(self, incremental: IncrementalType, delay: timedelta) -> Iterator[str]:
        """Yield each setting that contradicts the table's incremental type or delay."""
        if incremental.takes_upstream_batches:
            yield (
                f"freshness: a table of type {incremental.name} has no schedule of its own; set "
                "freshness in the files of its upstreams"
            )
        for name, given in (("within", self.within), ("warn", self.warn)):
            if given is not None and given <= delay:
                yield (
                    f"freshness.{name}: must be longer than delay, which is {delay}; both are "
                    "counted from the end of the window"
                )


def _convert_freshness(value: Any) -> Any:
    match value:
        case "auto":
            return {}
        case "none":
            return None
        case str() | int():
            raise ValueError(f"must be auto, none or {{within: 2 h}}, not {show_value(value)}")
        case _:
            return value


FreshnessField = Annotated[
    FreshnessConfig | None,
    BeforeValidator(
        _convert_freshness, json_schema_input_type=Literal["auto", "none"] | FreshnessConfig
    ),
    Formerly("fresh"),
]
