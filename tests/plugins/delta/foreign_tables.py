"""Delta tables as other engines leave them, and tables of a project that read them."""

import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any

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
