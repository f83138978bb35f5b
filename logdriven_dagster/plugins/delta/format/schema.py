"""Conversion between Spark's types and Delta's; both write schemas in nearly the same JSON."""

import json
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Literal

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

_FIELD_ID = "parquet.field.id"
"""Key with which Spark finds a column by its id."""


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
            plain.append(_field(field["name"], _plain(field["type"]), field.get("metadata")))
        except KeyError as error:
            raise TerminalStepError(
                f"{table}: column {field['name']} is of Delta's type {error.args[0]}, "
                "which cannot be read here"
            ) from None
    return StructType.fromJson({"type": "struct", "fields": plain})


def build_stored_fields(
    fields: Iterable[Mapping[str, Any]], by: Literal["name", "id", "both"]
) -> list[dict[str, Any]]:
    """Return columns as the files of a table with column mapping have them.

    To read `by` name, they have the physical names; by id, field ids, and names that no file
    contains, because Spark would otherwise skip rows by the statistics of a name. Files are
    written with both.
    """
    return [_stored_field(field, by) for field in fields]


def physical_name(field: Mapping[str, Any]) -> str:
    """Return the name of a mapped column in the log's statistics, and in files mapped by name."""
    return str(field["metadata"]["delta.columnMapping.physicalName"])


def _stored_field(field: Mapping[str, Any], by: Literal["name", "id", "both"]) -> dict[str, Any]:
    number = field["metadata"]["delta.columnMapping.id"]
    return {
        "name": f"logdriven_id_{number}" if by == "id" else physical_name(field),
        "type": _stored_type(field["type"], by),
        "metadata": {} if by == "name" else {_FIELD_ID: number},
    }


def _stored_type(kind: Any, by: Literal["name", "id", "both"]) -> Any:
    if isinstance(kind, str):
        return kind
    if kind["type"] == "struct":
        return {**kind, "fields": build_stored_fields(kind["fields"], by)}
    inner = kind.keys() & {"elementType", "keyType", "valueType"}
    return kind | {name: _stored_type(kind[name], by) for name in inner}


def schema_text(fields: Iterable[Mapping[str, Any]]) -> str:
    """Return the JSON of a schema."""
    return json.dumps({"type": "struct", "fields": list(fields)})


def _field(name: str, kind: Any, metadata: Mapping[str, Any] | None = None) -> dict[str, Any]:
    known = {_FIELD_ID: metadata[_FIELD_ID]} if metadata and _FIELD_ID in metadata else {}
    return {"name": name, "type": kind, "nullable": True, "metadata": known}


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
            fields = [
                _field(field["name"], _plain(field["type"]), field.get("metadata"))
                for field in kind["fields"]
            ]
            return {"type": "struct", "fields": fields}
        case other:
            raise KeyError(other)
