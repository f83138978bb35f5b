"""Limits of plain files: values that Spark would change are refused with the column's name.

Spark writes binary values to CSV as their display text, reads the keys of JSON maps as text
regardless of their type, and turns a null VARIANT into NULL. ORC's arithmetic loses the sign of
times within a second before 1970, and the ten days that were left out in 1582. Found by
`tests/engine/targets/test_round_trips.py` and `test_file_values.py`.
"""

from typing import TYPE_CHECKING

from logdriven_dagster.engine.queries.nested_values import any_leaf
from logdriven_dagster.engine.queries.quoting import plain, quote_name
from logdriven_dagster.engine.spark import functions as sf
from logdriven_dagster.errors import TerminalStepError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import DataType

_LEFT_OUT = "BETWEEN DATE'1582-10-05' AND DATE'1582-10-14'"
_EPOCH = "TIMESTAMP'1970-01-01 00:00:00Z'"


def storable(frame: "DataFrame", form: str) -> "DataFrame":
    """Return the rows, with an error for each value that files of this format would change.

    Raises TerminalStepError for a column whose type the format cannot hold at all.
    """
    changes = {}
    for field in frame.schema.fields:
        name, kind = field.name, field.dataType
        if form == "csv" and kind.typeName() == "binary":
            fix = f"write it as text, as in base64({name}) AS {name}"
            raise TerminalStepError(f"column {name}: a CSV file cannot store binary; {fix}")
        if form == "json" and (problem := _problem_in_json(kind)):
            refused = f"a JSON file cannot store {kind.simpleString()}"
            raise TerminalStepError(f"column {name}: {refused}, {problem}")
        if form == "orc" and (changed := any_leaf(quote_name(name), kind, _build_orc_condition)):
            error = f"column {plain(name)}: an ORC file cannot store this time; write it as text"
            v = quote_name(name)
            changes[name] = sf.expr(f"CASE WHEN {changed} THEN raise_error('{error}') ELSE {v} END")
    return frame.withColumns(changes) if changes else frame


def _problem_in_json(kind: "DataType") -> str | None:
    """Return the problem that a type has in JSON, with its fix; None if there is none."""
    from pyspark.sql import types as ty

    if isinstance(kind, ty.VariantType):
        return "where null and NULL would become one value; write it as text by to_json"
    if isinstance(kind, ty.MapType) and kind.keyType.typeName() != "string":
        return "whose keys are not strings; cast the keys to STRING"
    inner: list[DataType] = []
    if isinstance(kind, ty.MapType):
        inner = [kind.valueType]
    if isinstance(kind, ty.ArrayType):
        inner = [kind.elementType]
    if isinstance(kind, ty.StructType):
        inner = [field.dataType for field in kind.fields]
    return next(filter(None, map(_problem_in_json, inner)), None)


def _build_orc_condition(v: str, kind: "DataType") -> str | None:
    """Return SQL that is true for a time or date that ORC would return changed."""
    if kind.typeName() == "date":
        return f"{v} {_LEFT_OUT}"
    if kind.typeName() in ("timestamp", "timestamp_ntz"):
        fraction = f"{v} < {_EPOCH} AND {v} != date_trunc('SECOND', {v})"
        return f"({fraction} OR CAST({v} AS DATE) {_LEFT_OUT})"
    return None
