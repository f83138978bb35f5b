"""Schema evolution: fit of a result to an existing table, and growth of both.

A column of the result may be new (it is added to the table), narrower than the table's (it is cast)
or wider if the promotion is lossless (the table's type is widened); fields of structs likewise. A
column may be missing only if the table allows it, or if only the database has it (it becomes NULL
or the database's default, and is unchanged in rows that an upsert updates). Anything else is
refused with both schemas. Column names match in any case.
"""

import re
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from logdriven_dagster.config.models.tables import MissingColumns
from logdriven_dagster.config.models.types.targets import Target
from logdriven_dagster.engine.queries.common_types import MisfitError, common_type
from logdriven_dagster.engine.queries.nested_values import as_type
from logdriven_dagster.engine.queries.quoting import quote_name
from logdriven_dagster.engine.spark import functions as sf
from logdriven_dagster.errors import TerminalStepError
from logdriven_dagster.model.runs import Column

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import DataType, StructField, StructType

WINDOW_START = "_window_start"
"""Technical column: start of the window that wrote a row. It is hidden from readers by name."""

_SMALL_INTEGERS = re.compile(r"\b(?:tinyint|smallint)\b")
"""Types that table formats store as INT."""

COMMENT = "comment"
"""The key of a column's comment in Spark's metadata of a field."""


def window_column(target: Target) -> str:
    """Return the column whose value assigns a row of this target to a window.

    Only a window that replaces all rows of its range can omit the technical column: the other modes
    must distinguish rows that this window wrote from other rows.
    """
    own = target.window_column if target.write_mode.replaces_own_range else None
    return own or WINDOW_START


def columns_of(schema: "StructType") -> tuple[Column, ...]:
    """Return the columns that a reader of the table sees."""
    return tuple(
        Column(field.name, field.dataType.simpleString(), field.metadata.get("comment"))
        for field in schema.fields
        if field.name != WINDOW_START
    )


def conform(
    frame: "DataFrame",
    known: "StructType | None",
    table: str,
    *,
    missing: MissingColumns = "allow",
    missing_fields: MissingColumns | None = None,
) -> "DataFrame":
    """Return the frame with the table's order, spelling and types of columns; new ones come last.

    `known` is the table's schema, or None before its first row. `missing` applies to missing
    columns, `missing_fields` to missing fields of structs, by default the same. Raises
    TerminalStepError if the frame does not fit, or lacks a column or field that the table requires.
    """
    _refuse_duplicates(frame, table)
    if _fits(frame.schema, known):
        return frame
    known_fields = {field.name.lower(): field for field in known.fields} if known else {}
    given = {field.name.lower(): field for field in frame.schema.fields}
    columns = []
    for key in [*known_fields, *(name for name in given if name not in known_fields)]:
        old, new = known_fields.get(key), given.get(key)
        if new is None:
            assert old is not None
            if missing == "refuse" and old.name != WINDOW_START:
                raise TerminalStepError(
                    f"{table}: the result has no column {old.name}, which the table has; name "
                    f"it in the query, as in {_null_of(old)}, or set missing_columns: allow for "
                    "the table"
                )
            columns.append(sf.lit(None).cast(old.dataType).alias(old.name))
            continue
        goal = _storable(new.dataType)
        if old is not None:
            try:
                goal = common_type(old, new.dataType, lost=missing_fields or missing)
            except MisfitError as error:
                assert known is not None
                problem = _problem(error, old, new, may_lack=missing_fields is None)
                schemas = f"  table:  {ddl(known)}\n  result: {ddl(frame.schema)}"
                raise TerminalStepError(f"{table}: {problem}\n\n{schemas}") from None
        if goal.typeName() == "void":
            raise TerminalStepError(
                f"{table}: column {new.name} is NULL without a type; cast it, as in "
                f"CAST(NULL AS STRING) AS {new.name}"
            )
        value = sf.expr(as_type(quote_name(new.name), new.dataType, goal))
        columns.append(value.alias(old.name if old else new.name))
    return frame.select(*columns)


def refuse_wider_columns(frame: "DataFrame", fitting: "DataFrame", table: str) -> None:
    """Raise TerminalStepError if conforming gave a column another type than its frozen one."""
    stored = {field.name.lower(): field.dataType for field in fitting.schema.fields}
    for field in frame.schema.fields:
        old, new = stored[field.name.lower()].simpleString(), field.dataType.simpleString()
        if _SMALL_INTEGERS.sub("int", old) != _SMALL_INTEGERS.sub("int", new):
            raise TerminalStepError(
                f"{table}: the frozen column {field.name} is {new}, but the table has it as {old}; "
                f"write {old} into `columns` and the query, or load a new table"
            )


def select_given_columns(fitting: "DataFrame", frame: "DataFrame") -> "DataFrame":
    """Return the conformed frame without columns that only the table has."""
    given = {name.lower() for name in frame.columns}
    return fitting.select([quote_name(name) for name in fitting.columns if name.lower() in given])


def _fits(given: "StructType", known: "StructType | None") -> bool:
    """Return whether the frame already has the same columns in the same order and stored types."""
    if known is not None:
        goals = [(field.name, field.dataType) for field in known.fields]
    else:
        goals = [(field.name, _storable(field.dataType)) for field in given.fields]
    typed = all(field.dataType.typeName() != "void" for field in given.fields)
    return typed and goals == [(field.name, field.dataType) for field in given.fields]


def merge_schemas(schemas: "list[StructType]", table: str) -> "StructType":
    """Merge the schemas of files that were written at different stages of a table's evolution.

    Raises TerminalStepError if a column's types cannot be merged.
    """
    from pyspark.sql.types import StructField, StructType

    types: dict[str, StructField] = {}
    for schema in schemas:
        for field in schema.fields:
            seen = types.get(field.name.lower(), field)
            try:
                goal = common_type(seen, field.dataType, lost="allow")
            except MisfitError as error:
                raise TerminalStepError(
                    f"{table}: column {error.place} is {error.old} in some windows and "
                    f"{error.new} in others; refresh one of them"
                ) from None
            types[field.name.lower()] = StructField(seen.name, goal)
    return StructType(list(types.values()))


def _storable(kind: "DataType") -> "DataType":
    """Return the type of a new column: integers have at least 32 bits, as in every table format."""
    from pyspark.sql.types import ByteType, IntegerType, ShortType

    return IntegerType() if isinstance(kind, (ByteType, ShortType)) else kind


def _problem(error: MisfitError, old: "StructField", new: "StructField", *, may_lack: bool) -> str:
    """Return why a column of the result does not fit, and a fix.

    `may_lack` determines whether the table may allow results without some of its fields.
    """
    if error.new is None:
        allow = ", or set missing_columns: allow for the table" if may_lack else ""
        return (
            f"column {old.name} of the result has no field {error.place}, which the table has; "
            f"add {error.place.rpartition('.')[2]}, a {error.old}, to the struct in the step's "
            f"SQL{allow}"
        )
    if error.place == old.name:
        return (
            f"column {old.name} of the result does not match the table, where it is "
            f"{error.old}, not {error.new}; write CAST({new.name} AS {error.old}) in "
            "the step's SQL, or load a new table"
        )
    return (
        f"column {old.name} of the result does not match the table, where "
        f"{error.place} is {error.old}, not {error.new}; make it {error.old} in the "
        "step's SQL, or load a new table"
    )


def _null_of(field: "StructField") -> str:
    return f"CAST(NULL AS {field.dataType.simpleString()}) AS {field.name}"


@lru_cache
def ddl_type(name: str) -> "DataType":
    """Parse a type of Spark's DDL; the result is cached."""
    from pyspark.sql.types import StructType

    row: Any = StructType.fromDDL(f"v {name}")
    return row.fields[0].dataType  # type: ignore[no-any-return]


def ddl(schema: "StructType") -> str:
    """Return `name type, …` without the technical column, for messages."""
    return ", ".join(f"{column.name} {column.type}" for column in columns_of(schema))


def _refuse_duplicates(frame: "DataFrame", table: str) -> None:
    names = [field.name.lower() for field in frame.schema.fields]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise TerminalStepError(f"{table}: the result has two columns named {', '.join(twice)}")
