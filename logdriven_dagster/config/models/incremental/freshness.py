"""Freshness policy of a table (`fresh`): the deadline of its windows."""

from collections.abc import Iterator
from datetime import timedelta
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, model_validator

from logdriven_dagster.config.models.fields import DurationField, Model
from logdriven_dagster.config.models.incremental.types import IncrementalType
from logdriven_dagster.config.yaml.loader import shown

CHECK = "freshness"
"""Name of the asset check in Dagster that shows freshness."""


class FreshConfig(Model):
    """Maximum time between the end of a window and its success.

    Default of `within`: the table's delay plus one period, but at most delay plus one day.
    """

    within: DurationField | None = Field(
        None,
        description="from when on it is late; by default as `fresh: auto`",
        examples=["2 h"],
    )
    warn: DurationField | None = Field(
        None,
        description="from when on that is a warning; shorter than within",
        examples=["90 min"],
    )

    @model_validator(mode="after")
    def _possible(self) -> "FreshConfig":
        if self.within == timedelta(0):
            raise ValueError("within: a window needs time to run; write more than 0, or auto")
        if self.warn and self.within and self.warn >= self.within:
            raise ValueError("warn: it must be shorter than within, from which on it is late")
        return self

    def contradictions(self, incremental: IncrementalType, delay: timedelta) -> Iterator[str]:
        """Yield each setting that contradicts the table's incremental type or delay."""
        if incremental.takes_upstream_batches:
            yield (
                f"fresh: a table of type {incremental.name} follows no clock, it takes what its "
                "upstreams hand over; write it in the files of those"
            )
        for name, given in (("within", self.within), ("warn", self.warn)):
            if given is not None and given <= delay:
                yield (
                    f"fresh.{name}: no window runs before its delay of {delay} is over; write "
                    "more than that, it is counted from the end of the window"
                )


def _fresh(value: Any) -> Any:
    match value:
        case "auto":
            return {}
        case "none":
            return None
        case str() | int():
            raise ValueError(f"must be auto, none or {{within: 2 h}}, not {shown(value)}")
        case _:
            return value


FreshField = Annotated[
    FreshConfig | None,
    BeforeValidator(_fresh, json_schema_input_type=Literal["auto", "none"] | FreshConfig),
]
