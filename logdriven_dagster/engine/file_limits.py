"""What plain files cannot hold: refused by the name of its column, since Spark writes other values.

Spark writes of bytes in CSV what it shows of them, reads the keys of JSON's maps as text whatever
they are, and ORC's own arithmetic loses the sign of a time within a second before 1970 and the ten
days that were left out in 1582. Found by `tests/engine/test_round_trips.py`.
"""

from typing import TYPE_CHECKING

from logdriven_dagster.engine.quoting import plain, quoted
from logdriven_dagster.errors import TerminalStepError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import DataType

_LEFT_OUT = "BETWEEN DATE'1582-10-05' AND DATE'1582-10-14'"
_EPOCH = "TIMESTAMP'1970-01-01 00:00:00Z'"


def storable(frame: "DataFrame", form: str) -> "DataFrame":
    """The rows, with an error for each value that files of this form would change.

    TerminalStepError for a column none of whose values they can hold.
    """
    from pyspark.sql import functions as sf

    changes = {}
    for field in frame.schema.fields:
        name, kind = field.name, field.dataType
        if form == "csv" and kind.typeName() == "binary":
            fix = f"write it as text, as in base64({name}) AS {name}"
            raise TerminalStepError(f"column {name}: a CSV file cannot hold binary; {fix}")
        if form == "json" and _has_other_keys(kind):
            told = f"a JSON file cannot hold {kind.simpleString()}, whose keys are no texts"
            raise TerminalStepError(f"column {name}: {told}; cast the keys to STRING")
        if form == "orc" and (changed := _changed_by_orc(quoted(name), kind)):
            told = f"column {plain(name)}: an ORC file cannot hold this time; write it as text"
            v = quoted(name)
            changes[name] = sf.expr(f"CASE WHEN {changed} THEN raise_error('{told}') ELSE {v} END")
    return frame.withColumns(changes) if changes else frame


def _has_other_keys(kind: "DataType") -> bool:
    from pyspark.sql.types import ArrayType, MapType, StructType

    if isinstance(kind, MapType):
        return kind.keyType.typeName() != "string" or _has_other_keys(kind.valueType)
    if isinstance(kind, ArrayType):
        return _has_other_keys(kind.elementType)
    return isinstance(kind, StructType) and any(_has_other_keys(f.dataType) for f in kind.fields)


def _changed_by_orc(v: str, kind: "DataType", depth: int = 0) -> str | None:
    """SQL that says whether a value holds a time or day that comes back as another one."""
    from pyspark.sql.types import ArrayType, MapType, StructType

    if kind.typeName() == "date":
        return f"{v} {_LEFT_OUT}"
    if kind.typeName() in ("timestamp", "timestamp_ntz"):
        fraction = f"{v} < {_EPOCH} AND {v} != date_trunc('SECOND', {v})"
        return f"({fraction} OR CAST({v} AS DATE) {_LEFT_OUT})"
    if isinstance(kind, StructType):
        parts = [_changed_by_orc(f"{v}.{quoted(f.name)}", f.dataType, depth) for f in kind.fields]
        return " OR ".join(f"({part})" for part in parts if part) or None
    if isinstance(kind, MapType):
        keys = _changed_by_orc(f"map_keys({v})", ArrayType(kind.keyType), depth)
        values = _changed_by_orc(f"map_values({v})", ArrayType(kind.valueType), depth)
        return " OR ".join(f"({part})" for part in (keys, values) if part) or None
    if isinstance(kind, ArrayType):
        each = f"x{depth}"
        inner = _changed_by_orc(each, kind.elementType, depth + 1)
        return f"exists({v}, {each} -> {inner})" if inner else None
    return None
