"""The `columns` of a table: an empty frame with them, and results that have other ones."""

from typing import TYPE_CHECKING

from logdriven_dagster.config.models.tables import TableConfig
from logdriven_dagster.config.models.types.declared_columns import describe_columns
from logdriven_dagster.config.models.types.targets import Target
from logdriven_dagster.config.project import Project
from logdriven_dagster.engine.queries.nested_values import of_each, sql_type
from logdriven_dagster.engine.queries.quoting import quote_name, text_literal
from logdriven_dagster.engine.queries.schemas import COMMENT, ddl, ddl_type
from logdriven_dagster.engine.spark import functions as sf
from logdriven_dagster.errors import TerminalStepError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import DataType, StructField, StructType


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
    return spark.createDataFrame(
        [], add_target_columns(_build_declared(spark, table), table.output)
    )


def add_target_columns(schema: "StructType", target: Target) -> "StructType":
    """Return the columns of a result with those that the target adds."""
    from pyspark.sql.types import StructField, StructType

    added = [StructField(name, ddl_type(kind)) for name, kind in target.added_columns.items()]
    return StructType([*schema.fields, *added])


def _build_declared(spark: "SparkSession", table: TableConfig) -> "StructType":
    """Return the declared columns as a schema."""
    assert table.columns is not None
    return spark.createDataFrame([], table.columns).schema


def refuse_undeclared(spark: "SparkSession", frame: "DataFrame", table: TableConfig) -> None:
    """Raise TerminalStepError if a result has other columns or types than its table declares.

    Frozen columns must all be there.
    """
    if table.columns is None:
        return
    schema = _build_declared(spark, table)
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

    So it does for fields of structs that are NOT NULL. The query that writes the rows checks them,
    so that no other one is needed.
    """
    if table.columns is None:
        return frame
    fields = {field.name.lower(): field for field in frame.schema.fields}
    for declared in _build_declared(spark, table).fields:
        field = fields.get(declared.name.lower())
        if field is None:
            continue
        name, value = quote_name(field.name), ""
        if not declared.nullable and field.nullable:
            value += _fail_if(f"{name} IS NULL", f"column {declared.name}", field, table)
        if (lacks := _lacks_field(name, declared.dataType)) is not None:
            value += _fail_if(lacks, f"a field of column {declared.name}", field, table)
        if value:
            frame = frame.withColumn(field.name, sf.expr(f"CASE {value}ELSE {name} END"))
    return frame


def _fail_if(is_null: str, place: str, field: "StructField", table: TableConfig) -> str:
    """Return SQL of the branch of a CASE that fails."""
    problem = (
        f"{place} of {table.table} must not be NULL, but the result has a row with NULL in it; "
        "change the query, or remove NOT NULL from `columns`"
    )
    failed = f"CAST(raise_error({text_literal(problem)}) AS {sql_type(field.dataType)})"
    return f"WHEN {is_null} THEN {failed} "


def _lacks_field(v: str, declared: "DataType", depth: int = 0) -> str | None:
    """Return SQL that is true if a field within `v` is NULL that is NOT NULL; None if none is."""
    from pyspark.sql.types import ArrayType, MapType, StructType

    if isinstance(declared, StructType):
        parts = []
        for field in declared.fields:
            part = f"{v}.{quote_name(field.name)}"
            own = None if field.nullable else f"{part} IS NULL"
            parts += [own, _lacks_field(part, field.dataType, depth)]
        found = " OR ".join(part for part in parts if part is not None)
        return f"({v} IS NOT NULL AND ({found}))" if found else None
    if isinstance(declared, MapType):
        maps = f"map_keys({v})", f"map_values({v})"
        kinds = ArrayType(declared.keyType), ArrayType(declared.valueType)
        either = [_lacks_field(*each, depth) for each in zip(maps, kinds, strict=True)]
        return " OR ".join(part for part in either if part is not None) or None
    if isinstance(declared, ArrayType):
        element = declared.elementType
        if _lacks_field(v, element, depth + 1) is None:
            return None
        found = of_each(v, lambda x: str(_lacks_field(x, element, depth + 1)), depth)
        return f"array_contains({found}, true)"
    return None


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
