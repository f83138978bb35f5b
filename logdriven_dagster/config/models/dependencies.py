"""What a table depends on: upstream tables, and which of their windows it awaits and reads."""

import re
from datetime import timedelta
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from logdriven_dagster.config.models.fields import DurationField, Model, StepName, TableName


def _compiles(pattern: str) -> str:
    try:
        re.compile(pattern)
    except re.error as error:
        raise ValueError(f"not a regular expression: {error}") from None
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
    step: StepName | None = Field(
        None,
        description="incremental_type upstream: the step that consumes the batches; the first one "
        "by default",
    )
    cut_pattern: Annotated[str, AfterValidator(_compiles)] | None = Field(
        None,
        description="incremental_type upstream: a regular expression; a window takes all batches "
        "up to and including the first whose marking matches",
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
    def is_input(self) -> bool:
        """Whether rows are made from the awaited windows, so that new ones make them stale.

        What is done after a failure is not undone by the success that follows.
        """
        return self.window != "none" and self.read != "none" and self.condition != "failure"


def _dependency(value: Any) -> Any:
    return {"table": value} if isinstance(value, str) else value


DependencyField = Annotated[
    Dependency, BeforeValidator(_dependency, json_schema_input_type=str | Dependency)
]
