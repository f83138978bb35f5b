"""Tables that keep history: a rerun of a window is followed by all later ones, in order."""

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sqlalchemy import URL

from logdriven_dagster.errors import (
    EarlierWindowError,
    InvalidProjectError,
    RefusedError,
    UsageError,
)
from logdriven_dagster.execution.inspection.comparing import find_key
from logdriven_dagster.testing import NullEngine, Sandbox
from tests.builders import day
from tests.random_examples import examples

DAYS = 6
NOW = f"2022-01-0{DAYS + 1}"
HISTORY = {
    "table": "dim.customers",
    "period": "1 day",
    "default_start": "2022-01-01",
    "depends_on": ["ods.customers"],
    "steps": [
        {
            "step": "load",
            "sql": "SELECT * FROM ods.customers",
            "target": {"type": "iceberg", "mode": "history", "key": ["id"]},
        }
    ],
}
SOURCE = {
    "table": "ods.customers",
    "period": "1 day",
    "default_start": "2022-01-01",
    "steps": [{"step": "load", "sql": "SELECT 1 AS id", "target": {"type": "iceberg"}}],
}
READER = {
    "table": "dws.cities",
    "period": "1 day",
    "default_start": "2022-01-01",
    "depends_on": ["dim.customers"],
    "steps": [
        {"step": "load", "sql": "SELECT * FROM dim.customers", "target": {"type": "iceberg"}}
    ],
}


def open_sandbox(folder: Path, run_log: str | None = None, **history: Any) -> Sandbox:
    sandbox = Sandbox(folder, engine=NullEngine())
    if run_log is not None:
        sandbox.write("logdriven.yaml", {"project": "shop", "run_log": run_log})
    for table in (SOURCE, {**HISTORY, **history}, READER):
        sandbox.write(f"tables/{table['table']}.yaml", table)
    return sandbox


def days(sandbox: Sandbox, table: str = "dim.customers") -> list[int]:
    """The days that were published, in order."""
    published = [each for each in sandbox.engine.publications if each.table == table]
    return [each.window.start.day for each in published]


def pending(sandbox: Sandbox, table: str = "dim.customers") -> list[tuple[int, str]]:
    plan = sandbox.runner.plan(sandbox._read_instant(NOW))
    return [(each.window.start.day, each.state.value) for each in plan.queue(table)]


def skip(sandbox: Sandbox, n: int) -> None:
    sandbox.runner.skip("dim.customers", [day(n)], sandbox._read_instant(NOW), "why", "ann")


@pytest.fixture
def sandbox(tmp_path: Path) -> Sandbox:
    sandbox = open_sandbox(tmp_path)
    sandbox.run(now=NOW)
    assert days(sandbox) == [1, 2, 3, 4, 5, 6]
    return sandbox


@pytest.mark.sampled("database_url")
def test_a_rerun_makes_the_later_windows_pending_and_they_follow_in_order(
    tmp_path: Path, database_url: URL, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("RUN_LOG", database_url.render_as_string(hide_password=False))
    sandbox = open_sandbox(tmp_path, "${env:RUN_LOG}")
    sandbox.run(now=NOW)
    assert days(sandbox) == [1, 2, 3, 4, 5, 6]
    sandbox.refresh("dim.customers", "2022-01-03", "2022-01-04", now=NOW)
    assert pending(sandbox) == [(4, "ready"), (5, "blocked"), (6, "blocked")]
    sandbox.run(now=NOW)
    assert days(sandbox)[6:] == [3, 4, 5, 6]
    assert days(sandbox, "dws.cities")[6:] == [3, 4, 5, 6]
    assert pending(sandbox) == []
    sandbox.run(now=NOW)
    assert days(sandbox)[10:] == []


def test_a_new_window_waits_for_those_that_follow_a_rerun(sandbox: Sandbox):
    sandbox.refresh("dim.customers", "2022-01-05", "2022-01-06", now=NOW)
    sandbox.run(now="2022-01-09")
    assert days(sandbox)[6:] == [5, 6, 7, 8]


def test_a_window_that_builds_on_outdated_ones_cannot_be_refreshed(sandbox: Sandbox):
    sandbox.refresh("dim.customers", "2022-01-02", "2022-01-03", now=NOW)
    with pytest.raises(EarlierWindowError, match=r"waits for \[2022-01-03.*runs again before it"):
        sandbox.refresh("dim.customers", "2022-01-05", "2022-01-06", now=NOW)


def test_a_rerun_of_an_upstream_window_is_followed_by_all_later_versions(sandbox: Sandbox):
    sandbox.refresh("ods.customers", "2022-01-04", "2022-01-05", now=NOW)
    sandbox.run(now=NOW)
    assert days(sandbox)[6:] == [4, 5, 6]


def test_on_upstream_refresh_does_not_concern_the_windows_of_the_table_itself(tmp_path: Path):
    sandbox = open_sandbox(tmp_path, on_upstream_refresh="ignore")
    sandbox.run(now=NOW)
    sandbox.refresh("ods.customers", "2022-01-02", "2022-01-03", now=NOW)
    sandbox.refresh("dim.customers", "2022-01-04", "2022-01-05", now=NOW)
    sandbox.run(now=NOW)
    assert days(sandbox)[6:] == [4, 5, 6]


def test_windows_before_the_first_one_are_followed_by_all_others(sandbox: Sandbox):
    for table in (SOURCE, HISTORY):
        earlier = {**table, "default_start": "2021-12-31"}
        sandbox.write(f"tables/{table['table']}.yaml", earlier)
    sandbox.run(now=NOW)
    assert days(sandbox)[6:] == [31, 1, 2, 3, 4, 5, 6]


def test_a_history_cannot_be_read_by_window(tmp_path: Path):
    sandbox = open_sandbox(tmp_path)
    read = [{"table": "dim.customers", "read": "window"}]
    sandbox.write("tables/dws.cities.yaml", {**READER, "depends_on": read})
    with pytest.raises(InvalidProjectError, match="is a history, read whole"):
        sandbox.run(now=NOW)


def test_a_skipped_window_that_runs_after_all_is_followed_by_the_later_ones(tmp_path: Path):
    sandbox = open_sandbox(tmp_path)
    sandbox.engine.fail("dim.customers", "2022-01-02")
    sandbox.run(now=NOW)
    skip(sandbox, 2)
    sandbox.run(now=NOW)
    sandbox.refresh("dim.customers", "2022-01-02", "2022-01-03", now=NOW)
    sandbox.run(now=NOW)
    assert days(sandbox) == [1, 3, 4, 5, 6, 2, 3, 4, 5, 6]


def test_versions_are_compared_by_their_key_and_their_start(sandbox: Sandbox):
    project = sandbox.runner.project
    found = find_key(project, project.table("dim.customers"))
    assert found == (("id", "valid_from"), "the key of its target")


ACTIONS = st.lists(
    st.tuples(
        st.sampled_from(["refresh", "refresh upstream", "fail", "run", "run some", "skip"]),
        st.integers(1, DAYS),
        st.integers(0, 2),
    ),
    max_size=8,
)


@pytest.mark.usefixtures("slow")
@settings(max_examples=examples(30))
@given(ACTIONS)
def test_every_order_of_reruns_leaves_the_table_of_one_pass(actions: list[tuple[str, int, int]]):
    with TemporaryDirectory() as folder:
        sandbox = open_sandbox(Path(folder))
        for action, first, more in actions:
            _act(sandbox, action, first, min(first + more, DAYS))
        for _ in range(len(actions) + 1):  # each may have left a failure
            sandbox.run(now=NOW)
        assert pending(sandbox) == []
        versions = _fold(sandbox)
        newest = {each.window: each.job_id for each in _publications(sandbox)}
        assert versions == [(window, newest[window]) for window in sorted(newest)]


def _act(sandbox: Sandbox, action: str, first: int, last: int) -> None:
    span = f"2022-01-{first:02}", f"2022-01-{last + 1:02}"
    do: dict[str, Callable[[], object]] = {
        "refresh": lambda: sandbox.refresh("dim.customers", *span, now=NOW),
        "refresh upstream": lambda: sandbox.refresh("ods.customers", *span, now=NOW),
        "fail": lambda: sandbox.engine.fail("dim.customers", span[0]),
        "run": lambda: sandbox.run(now=NOW),
        "run some": lambda: sandbox.run(now=NOW, max_windows=2),
        "skip": lambda: skip(sandbox, first),
    }
    with suppress(RefusedError, UsageError):
        do[action]()


def _publications(sandbox: Sandbox) -> list[Any]:
    return [each for each in sandbox.engine.publications if each.table == "dim.customers"]


def _fold(sandbox: Sandbox) -> list[tuple[Any, int]]:
    """The contributions of windows that the table holds: a window removes those behind its start.

    So does `engine.targets.versions`.
    """
    held: list[tuple[Any, int]] = []
    for each in _publications(sandbox):
        held = [item for item in held if item[0].start < each.window.start]
        held.append((each.window, each.job_id))
    return held
