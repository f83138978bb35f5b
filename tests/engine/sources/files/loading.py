"""Files of text that a test writes and loads."""

from typing import Any

import pytest

from logdriven_dagster.errors import TerminalStepError
from tests.builders import day
from tests.engine.laboratory import Lab

TARGET = {"type": "parquet"}


def load(lab: Lab, source: dict[str, Any], sql: str | None = None, target: Any = None) -> Any:
    step = {"source": source, "target": target or TARGET}
    lab.table("ods.t", step | ({"sql": sql} if sql else {}))
    return lab.run("ods.t", day(1))


def refused(lab: Lab, source: dict[str, Any], sql: str | None = None) -> str:
    with pytest.raises(TerminalStepError) as caught:
        load(lab, source, sql)
    return str(caught.value)


def json_lines(columns: str = "a INT, b STRING", **fields: Any) -> dict[str, Any]:
    return {"type": "json", "path": "in", "columns": columns, **fields}
