"""A step that runs once for each row of a query. Source: Sharp ETL, `loopOver`."""

from typing import Annotated, Any

from pydantic import BeforeValidator, Field, model_validator

from logdriven_dagster.config.models.fields import Model, StepName

VARIABLE = "row_"
"""Before a column's name: the variable that has its value, `:row_city` and `${row_city}`."""


class LoopOver(Model):
    """Where the rows come from; the results for all of them are one result, joined by name."""

    step: StepName | None = Field(None, description="an earlier step, whose rows these are")
    sql: str | None = Field(
        None, description="a query of the rows", examples=["SELECT city FROM ods.cities"]
    )
    columns: str | None = Field(
        None,
        description="Spark DDL of the result, which is empty then if there is no row; without it "
        "nobody knows what columns an empty result has, and the attempt fails",
        examples=["id BIGINT, city STRING"],
    )
    max_rows: int = Field(1000, ge=1, description="more rows than this are refused")

    @model_validator(mode="after")
    def _one_origin(self) -> "LoopOver":
        if (self.step is None) == (self.sql is None):
            raise ValueError("give either step or sql")
        return self


def _loop(value: Any) -> Any:
    return {"step": value} if isinstance(value, str) else value


LoopField = Annotated[LoopOver, BeforeValidator(_loop, json_schema_input_type=str | LoopOver)]
