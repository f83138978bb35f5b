"""The `columns` of a table: an empty frame with them, and results that have other ones."""

from typing import TYPE_CHECKING

from logdriven_dagster.config.models.tables import TableConfig
from logdriven_dagster.config.models.types.declared_columns import describe_columns
from logdriven_dagster.config.models.types.targets import Target
from logdriven_dagster.config.project import Project
from logdriven_dagster.engine.queries.nested_values import sql_type
from logdriven_dagster.engine.queries.quoting import quote_name, text_literal
from logdriven_dagster.engine.queries.schemas import COMMENT, ddl
from logdriven_dagster.engine.spark import functions as sf
from logdriven_dagster.errors import TerminalStepError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType


def build_first_state(spark: "SparkSession", table: TableConfig) -> "DataFrame":
    """Return the rows that a table reads of itself before any of its windows is published: none.

    Raises TerminalStepError if the table does not declare its columns.
    """
    if table.columns is None:
        raise TerminalStepError(
            f"{table.table} reads its own rows, but none of its windows has been published, so "
            "its columns are unknown; add them to the table, such as "
            "`columns: day DATE, total BIGINT`"
        )
    return spark.createDataFrame([], table.columns)


def refuse_undeclared(spark: "SparkSession", frame: "DataFrame", table: TableConfig) -> None:
    """Raise TerminalStepError if a result has other columns or types than its table declares.

    Frozen columns must all be there.
    """
    if table.columns is None:
        return
    schema = build_first_state(spark, table).schema
    declared, found = _list_types(schema), _list_types(frame.schema)
    may_lack = table.missing_columns == "allow" and table.schema_rule != "frozen"
    problems = [
        *(f"column {name} is not among them" for name in found.keys() - declared.keys()),
        *(f"column {name} is missing" for name in declared.keys() - found.keys() if not may_lack),
        *(
            f"column {name} is {found[name]}, not {declared[name]}"
            for name in declared.keys() & found.keys()
            if found[name] != declared[name]
        ),
    ]
    if problems:
        listed = "; ".join(sorted(problems))
        raise TerminalStepError(
            f"the result does not have the columns of {table.table}: {listed}; change the query or "
            f"`columns`\n\n  columns: {ddl(schema)}\n  result:  {ddl(frame.schema)}"
        )


def require_values(spark: "SparkSession", frame: "DataFrame", table: TableConfig) -> "DataFrame":
    """Return the frame, whose query fails at a row with NULL in a column that is NOT NULL.

    The query that writes the rows checks them, so that no other one is needed.
    """
    if table.columns is None:
        return frame
    fields = {field.name.lower(): field for field in frame.schema.fields}
    for declared in build_first_state(spark, table).schema.fields:
        field = fields.get(declared.name.lower())
        if declared.nullable or field is None or not field.nullable:
            continue
        problem = (
            f"column {declared.name} of {table.table} must not be NULL, but the result has a row "
            "with NULL in it; change the query, or remove NOT NULL from `columns`"
        )
        name = quote_name(field.name)
        kind = sql_type(field.dataType)
        failed = f"CAST(raise_error({text_literal(problem)}) AS {kind})"
        value = sf.expr(f"CASE WHEN {name} IS NULL THEN {failed} ELSE {name} END")
        frame = frame.withColumn(field.name, value)
    return frame


def add_comments(
    schema: "StructType", project: Project, table: str, target: Target
) -> "StructType":
    """Return the schema of a target with the comments that its table declares, as metadata.

    Only the rows that other tables read have declared columns.
    """
    from pyspark.sql.types import StructField, StructType

    config = project.tables.get(table)
    if config is None or config.columns is None or target != config.output:
        return schema
    comments = {each.name.lower(): each.comment for each in describe_columns(config.columns)}
    return StructType(
        [
            StructField(field.name, field.dataType, field.nullable, {COMMENT: comment})
            if (comment := comments.get(field.name.lower()))
            else field
            for field in schema.fields
        ]
    )


def _list_types(schema: "StructType") -> dict[str, str]:
    return {field.name.lower(): field.dataType.simpleString() for field in schema.fields}
