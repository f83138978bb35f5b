"""Delta tables as other engines leave them, and tables of a project that read them."""

import json
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
from deltalake import write_deltalake

from tests.engine.laboratory import Lab


def make(lab: Lab, folder: Path, **source: Any) -> None:
    described = {"type": "delta", "path": folder.name, **source}
    lab.table("ods.t", {"source": described, "target": {"type": "parquet"}}, depends_on=[])


def vector(deleted: list[int]) -> Mapping[str, Any]:
    """Row numbers as a deletion vector within the log."""
    roaring = struct.pack("<IIHHI", 12346, 1, 0, len(deleted) - 1, 16)
    roaring += struct.pack(f"<{len(deleted)}H", *deleted)
    data = struct.pack("<IQI", 1681511377, 1, 0) + roaring
    padded = data + bytes(-len(data) % 4)
    described = {"storageType": "i", "pathOrInlineDv": z85(padded), "sizeInBytes": len(data)}
    return {**described, "cardinality": len(deleted)}


def z85(data: bytes) -> str:
    digits = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"
    words = struct.unpack(f">{len(data) // 4}I", data)
    return "".join(digits[word // 85**power % 85] for word in words for power in (4, 3, 2, 1, 0))


QUERY = "SELECT int(day(:data_range_start)) AS day, v FROM VALUES (1), (2) AS t(v)"


def folder(lab: Lab) -> Path:
    return lab.warehouse / "ods/t"


def load_days(lab: Lab, sql: str = QUERY, **target: Any) -> None:
    described = {"type": "delta", "existing_rows": "keep", **target}
    lab.table("ods.t", {"sql": sql, "target": described})


def add_foreign_rows(
    lab: Lab,
    *features: str,
    settings: dict[str, str] | None = None,
    column: dict[str, Any] | None = None,
    readers: tuple[str, ...] = (),
    **added: Any,
) -> None:
    """A table of another engine with one row, and with these properties of the table and of v."""
    held = {"day": pa.array([0], pa.int32()), "v": pa.array([0], pa.int32())}
    write_deltalake(folder(lab), pa.table(held))
    path = folder(lab) / "_delta_log" / f"{0:020}.json"
    actions = [json.loads(line) for line in path.read_text().splitlines()]
    for action in actions:
        if "protocol" in action:
            protocol = {"minReaderVersion": 3 if readers else 1, "minWriterVersion": 7}
            protocol |= {"writerFeatures": [*features, *readers]}  # type: ignore[dict-item]
            action["protocol"] = protocol | ({"readerFeatures": [*readers]} if readers else {})
        if "metaData" in action:
            schema = json.loads(action["metaData"]["schemaString"])
            schema["fields"][1] |= column or {}
            action["metaData"]["schemaString"] = json.dumps(schema)
            action["metaData"]["configuration"] = settings or {}
        if "add" in action:
            action["add"] |= added
    path.write_text("".join(json.dumps(action) + "\n" for action in actions))
