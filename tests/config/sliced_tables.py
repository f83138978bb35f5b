"""Tables along keys, offsets, files and batches."""

from typing import Any

from tests.builders import STEP, table

KEYS = {
    "step": "load",
    "source": {"type": "jdbc", "connection": "c", "table": "t", "key_column": "id"},
    "target": {"type": "iceberg"},
}


TOPIC = {
    "step": "load",
    "source": {"type": "kafka", "connection": "k", "topic": "t"},
    "target": {"type": "iceberg"},
}


LINES = {
    "step": "load",
    "source": {"type": "csv", "path": "in/*.csv"},
    "target": {"type": "iceberg"},
}


TYPES: dict[str, dict[str, Any]] = {
    "auto_inc_id": {"steps": [KEYS]},
    "kafka_offset": {"steps": [TOPIC]},
    "files": {"steps": [LINES]},
    "upstream": {"steps": [STEP], "depends_on": ["ods.a"]},
}


def sliced(kind: str, **fields: Any) -> Any:
    start = {"default_start": None} if "default_start" not in fields else {}
    return table(incremental_type=kind, **{**TYPES[kind], **start, **fields})
