"""Delta tables with column mapping, as another engine leaves them; PyArrow writes the files."""

import json
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyarrow import parquet

from tests.engine.laboratory import Lab


def field(number: int, name: str, stored: str, kind: Any) -> dict[str, Any]:
    """A column in the schema of the log."""
    mapped = {"delta.columnMapping.id": number, "delta.columnMapping.physicalName": stored}
    return {"name": name, "type": kind, "nullable": True, "metadata": mapped}


def struct(number: int) -> dict[str, Any]:
    fields = [field(number, "y", "x", "integer"), field(number + 1, "x", "col-7", "string")]
    return {"type": "struct", "fields": fields}


# The name of one column is the stored name of another one: both were renamed.
COLUMNS = [
    field(1, "b", "a", "long"),
    field(2, "a", "b", "long"),
    field(3, "at", "col-3", "timestamp"),
    field(4, "place", "a b", "string"),
    field(5, "s", "col-5", struct(10)),
    field(8, "l", "col-8", {"type": "array", "elementType": struct(12), "containsNull": True}),
    field(
        9,
        "m",
        "col-9",
        {"type": "map", "keyType": "string", "valueType": struct(14), "valueContainsNull": True},
    ),
]


def rows(number: int, one: datetime, two: datetime) -> list[dict[str, Any]]:
    """Two rows by stored names, at these times."""
    inner = {"x": number, "col-7": f"text {number}"}
    whole = {"a": number, "b": -number, "col-5": inner, "col-8": [inner], "col-9": {"k": inner}}
    empty = {"a": None, "b": number, "col-5": None, "col-8": None, "col-9": None}
    return [{**whole, "col-3": one}, {**empty, "col-3": two}]


def arrow(kind: Any) -> pa.DataType:
    if isinstance(kind, dict) and kind["type"] == "struct":
        return pa.struct([arrow_field(each) for each in kind["fields"]])
    if isinstance(kind, dict) and kind["type"] == "array":
        return pa.list_(arrow(kind["elementType"]))
    if isinstance(kind, dict):
        return pa.map_(arrow(kind["keyType"]), arrow(kind["valueType"]))
    kinds = {"long": pa.int64(), "integer": pa.int32(), "timestamp": pa.timestamp("us", "UTC")}
    return kinds.get(kind, pa.string())


def arrow_field(column: dict[str, Any]) -> pa.Field:
    mapped = column["metadata"]
    number = str(mapped["delta.columnMapping.id"])
    name = mapped["delta.columnMapping.physicalName"]
    return pa.field(name, arrow(column["type"]), metadata={"PARQUET:field_id": number})


class Table:
    """A table with column mapping, whose log grows by one commit at a time."""

    def __init__(
        self, folder: Path, mode: str, columns: list[dict[str, Any]], *, partition: str = "place"
    ) -> None:
        self.folder, self.mode, self.version = folder, mode, 0
        self.partitions = [partition] if partition else []
        (folder / "_delta_log").mkdir(parents=True)
        features = ["columnMapping", "deletionVectors"]
        protocol = {"minReaderVersion": 3, "minWriterVersion": 7}
        protocol |= {"readerFeatures": features, "writerFeatures": features}  # type: ignore[dict-item]
        self.commit({"protocol": protocol}, self.described(columns))

    def described(self, columns: list[dict[str, Any]]) -> dict[str, Any]:
        settings = {"delta.columnMapping.mode": self.mode, "delta.columnMapping.maxColumnId": "99"}
        return {
            "metaData": {
                "id": "1",
                "format": {"provider": "parquet", "options": {}},
                "schemaString": json.dumps({"type": "struct", "fields": columns}),
                "partitionColumns": self.partitions,
                "configuration": settings,
                "createdTime": 0,
            }
        }

    def commit(self, *actions: dict[str, Any]) -> None:
        path = self.folder / "_delta_log" / f"{self.version:020}.json"
        path.write_text("".join(json.dumps(action) + "\n" for action in actions))
        self.version += 1

    def add(
        self,
        number: int,
        hour: datetime,
        place: str | None = None,
        *,
        until: datetime | None = None,
        **told: Any,
    ) -> Path:
        """Commit a file of two rows; its path.

        In mode `id`, the files of sources have names that the log does not know.
        """
        stored = [arrow_field(each) for each in COLUMNS if each["name"] != "place"]
        data = pa.Table.from_pylist(rows(number, hour, until or hour), pa.schema(stored))
        if self.mode == "id" and self.partitions:
            data = data.rename_columns([f"n{n}" for n in range(len(stored))])
            data = data.cast(
                pa.schema(f.with_name(g.name) for f, g in zip(stored, data.schema, strict=True))
            )
        path = self.folder / f"{number}.parquet"
        parquet.write_table(data, path)
        ends = {"col-3": hour.isoformat(), "a": number, "b": -number}
        statistics = {
            "numRecords": 2,
            "minValues": ends,
            "maxValues": {**ends, "b": number, "col-3": (until or hour).isoformat()},
            "nullCount": {"a": 1, "b": 0, "col-3": 0},
        }
        add = {
            "path": path.name,
            "partitionValues": {"a b": place} if self.partitions else {},
            "size": path.stat().st_size,
            "modificationTime": 0,
            "dataChange": True,
            "stats": json.dumps(statistics),
        }
        self.commit({"add": {**add, **told}})
        return path


def hour(n: int) -> datetime:
    return datetime(2022, 1, n, 5, tzinfo=timezone.utc)


INNER = "named_struct('y', {0}, 'x', 'text {0}')"
QUERY = f"""
SELECT {{0}}L AS b, -{{0}}L AS a, :data_range_start AS at, {INNER} AS s, array({INNER}) AS l,
       map('k', {INNER}) AS m
"""


def load(lab: Lab, number: int, **given: Any) -> None:
    described = {"type": "delta", "window_column": "at", **given}
    lab.table("ods.t", {"sql": QUERY.format(number), "target": described})
