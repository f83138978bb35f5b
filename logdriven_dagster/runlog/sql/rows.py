"""Rows of queries as dictionaries, for display."""

import json
from datetime import datetime
from typing import Any


def convert_row(row: Any) -> dict[str, Any]:
    """Convert a row to a dictionary: timestamps as ISO 8601 in UTC, `runtime_args` as an object."""
    values = dict(row._mapping)
    for name, value in values.items():
        if isinstance(value, datetime):
            values[name] = f"{value.isoformat()}+00:00"
    if values.get("runtime_args"):
        values["runtime_args"] = json.loads(values["runtime_args"])
    return values
