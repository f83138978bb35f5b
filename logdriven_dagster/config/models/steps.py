"""Model of a step: its source, its transformation and its target."""

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, StringConstraints, model_validator

from logdriven_dagster.config.models.fields import PercentField, StepName, as_tuple
from logdriven_dagster.config.models.frozen import Model
from logdriven_dagster.config.models.quality import QualityConfig
from logdriven_dagster.config.models.types.registered import SourceField, TargetField

PythonReference = Annotated[str, StringConstraints(pattern=r"^[^:\s]+:[A-Za-z_][A-Za-z0-9_]*$")]

VARIABLE = "row_"
"""Prefix of variables that hold a row's column values, as in `:row_city` and `${row_city}`."""


class LoopOver(Model):
    """A step that runs once per row of a query; the results are combined by column name.

    Source: Sharp ETL, `loopOver`.
    """

    step: StepName | None = Field(None, description="the earlier step that provides the rows")
    sql: str | None = Field(
        None, description="a query of the rows", examples=["SELECT city FROM ods.cities"]
    )
    columns: str | None = Field(
        None,
        description="the columns of an empty result, as Spark DDL; without it, an attempt "
        "without rows fails, because the columns are unknown",
        examples=["id BIGINT, city STRING"],
    )
    max_rows: int = Field(1000, ge=1, description="the maximum number of rows; more rows fail")

    @model_validator(mode="after")
    def _check_one_origin(self) -> "LoopOver":
        if (self.step is None) == (self.sql is None):
            raise ValueError("give either step or sql")
        return self


def _convert_loop(value: Any) -> Any:
    return {"step": value} if isinstance(value, str) else value


LoopField = Annotated[
    LoopOver, BeforeValidator(_convert_loop, json_schema_input_type=str | LoopOver)
]


class CommittedSql(Model):
    """SQL statements that a step commits on a connection before it reads.

    Source: Kettle, "Execute SQL script" of the transformation template.
    """

    connection: str = Field(
        description="the name of a connection of the project", examples=["shop"]
    )
    sql: Annotated[
        tuple[str, ...],
        BeforeValidator(as_tuple, json_schema_input_type=str | tuple[str, ...]),
    ] = Field(
        min_length=1,
        description="statements; `${name}` are variables, as in paths",
        examples=[["CALL prepare()"]],
    )
    transaction: bool = Field(
        True,
        description="commit all statements together; false: each by itself, as DDL and "
        "TRUNCATE require on MariaDB",
    )


class StepConfig(Model):
    """Read → transform → write; the result is also a view of the step's name for later steps.

    Source: Sharp ETL, steps of a workflow; Kettle, transformation template.
    """

    step: StepName = Field(description="the name of the step, by which later steps read its rows")
    commit_before_read: tuple[CommittedSql, ...] = Field(
        (),
        description="statements to execute and commit before the step reads, in each attempt "
        "and each retry, even if the window is not published afterwards",
    )
    source: SourceField | None = Field(
        None,
        description="the source of the rows; the query of the step reads it as `source`",
        examples=[{"type": "csv", "path": "orders.csv"}],
    )
    sql: str | None = Field(
        None,
        description="a query in Spark's SQL; it reads `source`, earlier steps and tables by name",
        examples=["SELECT id, amount FROM source"],
    )
    sql_file: str | None = Field(
        None, description="a file with the query, relative to this file", examples=["orders.sql"]
    )
    python: PythonReference | None = Field(
        None,
        description="a function instead of a query: `package.module:function` or "
        "`file.py:function`, with DataFrames as arguments and result",
        examples=["own.py:clean"],
    )
    loop_over: LoopField | None = Field(
        None,
        description="run source and query once for each row of a query or an earlier step; its "
        "columns are `:row_name` and `${row_name}`",
        examples=[{"sql": "SELECT city FROM ods.cities"}],
    )
    target: TargetField | None = Field(
        None,
        description="the target of the rows; without one, only later steps read them",
        examples=[{"type": "iceberg"}],
    )
    quality: QualityConfig | None = Field(
        None, description="data quality rules for the written rows"
    )
    max_rows: int | None = Field(
        None,
        ge=0,
        description="the maximum number of rows that a window writes, or that an upsert "
        "changes; more rows are not published",
    )
    never_empty: bool = Field(
        False, description="true: a result without rows does not replace published rows"
    )
    change_at_most: PercentField | None = Field(
        None,
        description="the maximum difference between the number of rows and that of the "
        "replaced published rows, in percent; a result with a greater difference "
        "is not published",
    )
    on_empty: Literal["continue", "skip_following_steps"] = Field(
        "continue", description="the action if the step wrote no rows"
    )
    can_recover: bool = Field(
        True, description="false: an attempt that was taken over never resumes at this step"
    )

    @property
    def compares_replaced(self) -> bool:
        """True if the result is compared with the published rows that it replaces."""
        return self.never_empty or self.change_at_most is not None

    @model_validator(mode="after")
    def _check_origin(self) -> "StepConfig":
        if not (self.source or self.sql or self.sql_file or self.python):
            raise ValueError("a step needs a source, sql, sql_file or python")
        if sum(given is not None for given in (self.sql, self.sql_file, self.python)) > 1:
            raise ValueError("give only one of sql, sql_file and python")
        target = self.target
        if target is None and self.on_empty != "continue":
            raise ValueError("on_empty needs a target: only written rows are counted")
        if target is None and (self.quality or self.max_rows is not None):
            raise ValueError("quality and max_rows need a target: only written rows are looked at")
        if self.compares_replaced and not (target and target.replaces_rows):
            raise ValueError(
                "never_empty and change_at_most need a target whose published rows are "
                "replaced: not type kafka, and not the modes upsert and history (limit their "
                "changes with max_rows)"
            )
        return self


class CheckConfig(Model):
    """A query over the staged result; if it returns any row, publication fails."""

    check: StepName = Field(description="the name in the log and in Dagster")
    sql: str = Field(
        description="a query that returns bad rows; it reads the results of steps and tables "
        "by name",
        examples=["SELECT * FROM load WHERE amount < 0"],
    )
    description: str | None = Field(
        None, description="the problem that its rows show", examples=["No amount is negative."]
    )
