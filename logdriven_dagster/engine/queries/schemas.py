"""Schemas: how a result fits a table that exists, and how both grow.

A column of the result may be new (the table gains it), narrower than the table's (it is cast up) or
wider where the promotion loses nothing (the table's type grows). It may be missing only where the
table allows it, or is a database's own (it becomes null, or what a database puts there by default,
and stays as it is in rows that an upsert changes). Anything else is refused with both schemas.
Column names match whatever their case.
"""

from functools import lru_cache
from typing import TYPE_CHECKING, Any

from logdriven_dagster.config.models.tables import MissingColumns
from logdriven_dagster.config.models.types.targets import Target
from logdriven_dagster.engine.queries.quoting import quoted
from logdriven_dagster.errors import TerminalStepError
from logdriven_dagster.model.runs import Column

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import DataType, StructType

WINDOW_START = "_window_start"
"""The technical column: the start of the window that wrote a row. Readers by name never see it."""


def window_column(target: Target) -> str:
    """Return the column whose value places a row of this target in a window.

    Only a window that replaces all rows of its range can do without the technical column: the other
    modes must tell rows that this window wrote from rows that it did not.
    """
    own = target.window_column if target.mode == "overwrite_window" else None
    return own or WINDOW_START


_INTEGERS = ("tinyint", "smallint", "int", "bigint")
_DIGITS = {"tinyint": 3, "smallint": 5, "int": 10, "bigint": 19}
_PROMOTIONS = {("int", "bigint"), ("float", "double")}
"""What Iceberg lets a table's column become; decimals may gain digits, too."""


def columns_of(schema: "StructType") -> tuple[Column, ...]:
    """Return the columns that a reader of the table sees."""
    return tuple(
        Column(field.name, field.dataType.simpleString())
        for field in schema.fields
        if field.name != WINDOW_START
    )


def conform(
    frame: "DataFrame",
    known: "StructType | None",
    table: str,
    *,
    missing: MissingColumns = "allow",
) -> "DataFrame":
    """Give the frame the table's order, spelling and types of columns; new ones come last.

    `known` is the table's schema, or None before its first row. TerminalStepError if it cannot fit,
    or lacks a column of the table where that is not allowed.
    """
    from logdriven_dagster.engine.spark import functions as sf

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
                kind = old.dataType.simpleString()
                raise TerminalStepError(
                    f"{table}: the result has no column {old.name}, which the table has; name it "
                    f"in the query, as in CAST(NULL AS {kind}) AS {old.name}, or say "
                    "missing_columns: allow for the table"
                )
            columns.append(sf.lit(None).cast(old.dataType).alias(old.name))
            continue
        goal = _storable(new.dataType)
        if old is not None:
            goal = _meeting(old.dataType, new.dataType) or _refuse(frame, known, table, old.name)
        if goal.typeName() == "void":
            raise TerminalStepError(
                f"{table}: column {new.name} is NULL without a type; cast it, as in "
                f"CAST(NULL AS STRING) AS {new.name}"
            )
        column = sf.col(quoted(new.name))
        column = column if new.dataType == goal else column.cast(goal)
        columns.append(column.alias(old.name if old else new.name))
    return frame.select(*columns)


def given_columns(fitting: "DataFrame", frame: "DataFrame") -> "DataFrame":
    """The conformed frame without the columns that only the table has."""
    given = {name.lower() for name in frame.columns}
    return fitting.select([quoted(name) for name in fitting.columns if name.lower() in given])


def _fits(given: "StructType", known: "StructType | None") -> bool:
    """Whether nothing is to be done: the same columns in the same order, each as it is stored."""
    if known is not None:
        goals = [(field.name, field.dataType) for field in known.fields]
    else:
        goals = [(field.name, _storable(field.dataType)) for field in given.fields]
    typed = all(field.dataType.typeName() != "void" for field in given.fields)
    return typed and goals == [(field.name, field.dataType) for field in given.fields]


def merged(schemas: "list[StructType]", table: str) -> "StructType":
    """Merge the schemas of files that were written at different stages of a table's growth."""
    from pyspark.sql.types import StructField, StructType

    types: dict[str, StructField] = {}
    for schema in schemas:
        for field in schema.fields:
            seen = types.get(field.name.lower(), field)
            goal = _meeting(seen.dataType, field.dataType)
            if goal is None:
                raise TerminalStepError(
                    f"{table}: column {field.name} is {seen.dataType.simpleString()} in some "
                    f"windows and {field.dataType.simpleString()} in others; refresh one of them"
                )
            types[field.name.lower()] = StructField(seen.name, goal)
    return StructType(list(types.values()))


def _storable(kind: "DataType") -> "DataType":
    """Return the type of a new column: integers have at least 32 bits, as in every table format."""
    from pyspark.sql.types import ByteType, IntegerType, ShortType

    return IntegerType() if isinstance(kind, (ByteType, ShortType)) else kind


def _meeting(old: "DataType", new: "DataType") -> "DataType | None":
    """The type that holds values of both without loss, or None."""
    from pyspark.sql.types import DecimalType

    before, after = old.simpleString(), new.simpleString()
    if after in (before, "void"):
        return old
    if before == "void" or (before, after) in _PROMOTIONS:
        return new
    if before in _INTEGERS and after in _INTEGERS:
        return max(old, new, key=lambda kind: _INTEGERS.index(kind.simpleString()))
    if before == "double" and after in ("float", "tinyint", "smallint", "int"):
        return old
    if isinstance(old, DecimalType):
        if after in _DIGITS and old.precision - old.scale >= _DIGITS[after]:
            return old
        if isinstance(new, DecimalType) and new.scale == old.scale:
            return max(old, new, key=lambda kind: kind.precision)
        if isinstance(new, DecimalType) and new.scale < old.scale:
            return old if new.precision - new.scale <= old.precision - old.scale else None
    return None


def _refuse(frame: "DataFrame", known: "StructType | None", table: str, column: str) -> "DataType":
    assert known is not None
    old, new = (_type_of(schema, column) for schema in (known, frame.schema))
    raise TerminalStepError(
        f"{table}: column {column} of the result does not fit the table, where it is {old}, not "
        f"{new}; write CAST({column} AS {old}) in the step's SQL, or load a new table\n\n"
        f"  table:  {ddl(known)}\n  result: {ddl(frame.schema)}"
    )


def _type_of(schema: "StructType", column: str) -> str:
    return next(
        field.dataType.simpleString()
        for field in schema.fields
        if field.name.lower() == column.lower()
    )


@lru_cache
def ddl_type(name: str) -> "DataType":
    """Parse a type of Spark's DDL; the answer is cached."""
    from pyspark.sql.types import StructType

    row: Any = StructType.fromDDL(f"v {name}")
    return row.fields[0].dataType  # type: ignore[no-any-return]


def ddl(schema: "StructType") -> str:
    """`name type, …` without the technical column, as messages show it."""
    return ", ".join(f"{column.name} {column.type}" for column in columns_of(schema))


def _refuse_duplicates(frame: "DataFrame", table: str) -> None:
    names = [field.name.lower() for field in frame.schema.fields]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise TerminalStepError(f"{table}: the result has two columns named {', '.join(twice)}")
