"""A table that begins earlier or ends later than it did: what is made from it runs again."""

from pathlib import Path

import pytest

from logdriven_dagster.planning.unread import iter_made_without
from logdriven_dagster.testing import NullEngine, Sandbox
from tests.builders import at
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


def begin(sandbox: Sandbox, start: str, **fields: str) -> None:
    sandbox.write("tables/a.yaml", null_table("t.a", "1 day", start, **fields))


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


def test_windows_after_a_later_end_make_finished_windows_stale(tmp_path: Path):
    sandbox = Sandbox(tmp_path, engine=NullEngine())
    sandbox.write("logdriven.yaml", "project: p")
    sandbox.write("tables/b.yaml", null_table("t.b", "1 day", "2022-01-01", "t.a"))
    begin(sandbox, "2022-01-01", end="2022-01-03")
    sandbox.run(now=NOW)
    assert published(sandbox, "t.b") == ["01", "02", "03", "04", "05"]
    sandbox.engine.clear()
    begin(sandbox, "2022-01-01", end="2022-01-05")
    sandbox.run(now=NOW)
    assert published(sandbox, "t.a") == ["03", "04"]
    assert published(sandbox, "t.b") == ["03", "04"]
    sandbox.engine.clear()
    sandbox.run(now=NOW)
    assert sandbox.engine.published() == []


def test_a_table_that_is_new_makes_nothing_stale_that_was_made_without_it(tmp_path: Path):
    sandbox = Sandbox(tmp_path, engine=NullEngine())
    sandbox.write("logdriven.yaml", "project: p")
    sandbox.write("tables/b.yaml", null_table("t.b", "1 day", "2022-01-01"))
    sandbox.run(now="2022-01-03")
    begin(sandbox, "2022-01-01")
    sandbox.write("tables/b.yaml", null_table("t.b", "1 day", "2022-01-01", "t.a"))
    (made,) = iter_made_without(sandbox.runner.plan(at("2022-01-04")).tables)
    assert "ran without t.a, which has not run yet" in made.text
    assert (
        "add its rows afterwards with `logdriven refresh t.b --from 2022-01-01 --to 2022-01-03`"
        in made.text
    )
    for _ in range(2):
        sandbox.run(now="2022-01-04")
    assert published(sandbox, "t.b") == ["01", "02", "03"]
