"""Conversion between Spark's types and Delta's; both write schemas in nearly the same JSON."""

import json
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from logdriven_dagster.engine.queries.schemas import COMMENT
from logdriven_dagster.errors import TerminalStepError

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

_PRIMITIVE = frozenset(
    {
        *("boolean", "byte", "short", "integer", "long", "float", "double", "string", "binary"),
        *("date", "timestamp", "timestamp_ntz"),
    }
)


def delta_fields(schema: "StructType") -> list[dict[str, Any]]:
    """Return the schema fields of a new table, in which every column is optional, with comments.

    Raises TerminalStepError if a Delta table cannot hold a column's type.
    """
    fields = []
    for field in schema.fields:
        try:
            kind = _plain(field.dataType.jsonValue())
        except KeyError:
            raise TerminalStepError(
                f"column {field.name}: a Delta table cannot hold "
                f"{field.dataType.simpleString()}; cast it to another type"
            ) from None
        comment = field.metadata.get(COMMENT)
        fields.append(
            _field(field.name, kind) | {"metadata": {COMMENT: comment} if comment else {}}
        )
    return fields


def spark_schema(fields: Iterable[Mapping[str, Any]], table: str) -> "StructType":
    """Return the schema with which Spark reads files of these columns.

    `table` is the table's name for messages. Raises TerminalStepError if Spark cannot read a
    column's type.
    """
    from pyspark.sql.types import StructType

    plain = []
    for field in fields:
        try:
            plain.append(_field(field["name"], _plain(field["type"])))
        except KeyError as error:
            raise TerminalStepError(
                f"{table}: column {field['name']} is of Delta's type {error.args[0]}, "
                "which cannot be read here"
            ) from None
    return StructType.fromJson({"type": "struct", "fields": plain})


def schema_text(fields: Iterable[Mapping[str, Any]]) -> str:
    """Return the JSON of a schema."""
    return json.dumps({"type": "struct", "fields": list(fields)})


def _field(name: str, kind: Any) -> dict[str, Any]:
    return {"name": name, "type": kind, "nullable": True, "metadata": {}}


def _plain(kind: Any) -> Any:
    """Return the type without metadata and with optional parts; raise KeyError if it is unknown."""
    if isinstance(kind, str):
        if kind.startswith(("varchar(", "char(")):
            return "string"
        if kind in _PRIMITIVE or kind.startswith("decimal("):
            return kind
        raise KeyError(kind)
    match kind["type"]:
        case "array":
            inner = _plain(kind["elementType"])
            return {"type": "array", "elementType": inner, "containsNull": True}
        case "map":
            parts = {name: _plain(kind[name]) for name in ("keyType", "valueType")}
            return {"type": "map", **parts, "valueContainsNull": True}
        case "struct":
            fields = [_field(field["name"], _plain(field["type"])) for field in kind["fields"]]
            return {"type": "struct", "fields": fields}
        case other:
            raise KeyError(other)
