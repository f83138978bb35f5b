"""Imports of Sharp ETL's workflows in tests."""

from collections.abc import Callable
from typing import Any

import pytest

from tests.plugins.importers.conftest import Folder

HEAD = """
    -- workflow=w
    --  period=1440
    --  loadType=incremental
    --  logDrivenType=timewindow
"""


@pytest.fixture
def brought(folder: Folder, command: Callable[..., Any]) -> Callable[..., Any]:
    """Import files that are written for it; the exit code tells whether something is listed."""

    def run(*texts: str, code: int = 0, options: tuple[object, ...] = ()) -> Any:
        for n, text in enumerate(texts):
            folder.write(f"workflows/w{n}.sql", text)
        result = command("import-sharpetl", folder.root / "workflows", "--json", *options)
        assert result.code == code, result.out + result.err
        return result.json if code < 2 else result.err

    return run


def listed(told: Any) -> list[tuple[str, str]]:
    """Line and item of everything that was not translated."""
    return [(each["place"].rpartition(":")[2], each["item"]) for each in told["untranslated"]]
