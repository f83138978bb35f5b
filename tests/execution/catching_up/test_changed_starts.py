"""A table that begins earlier than it did: what is made from it runs again with its new windows."""

from pathlib import Path

import pytest

from logdriven_dagster.testing import NullEngine, Sandbox
from tests.clock_changes import null_table

NOW = "2022-01-06"


@pytest.fixture
def sandbox(tmp_path: Path) -> Sandbox:
    """A table from the third of January on, and one that is made from it from the first on."""
    sandbox = Sandbox(tmp_path, engine=NullEngine())
    sandbox.write("logdriven.yaml", "project: p")
    begin(sandbox, "2022-01-03")
    sandbox.write("tables/b.yaml", null_table("t.b", "1 day", "2022-01-01", "t.a"))
    sandbox.run(now=NOW)
    sandbox.engine.clear()
    return sandbox


def begin(sandbox: Sandbox, start: str) -> None:
    sandbox.write("tables/a.yaml", null_table("t.a", "1 day", start))


def published(sandbox: Sandbox, table: str) -> list[str]:
    """Days that were published, in this order."""
    return [
        f"{each.window.start:%d}" for each in sandbox.engine.publications if each.table == table
    ]


def test_windows_before_the_first_one_make_finished_windows_stale(sandbox: Sandbox):
    begin(sandbox, "2022-01-01")
    sandbox.run(now=NOW)
    assert published(sandbox, "t.a") == ["01", "02"]
    assert published(sandbox, "t.b") == ["01", "02"]
    sandbox.engine.clear()
    sandbox.run(now=NOW)
    assert sandbox.engine.published() == []


def test_windows_in_their_turn_make_none_stale(sandbox: Sandbox):
    sandbox.run(now="2022-01-08")
    assert published(sandbox, "t.b") == ["06", "07"]
