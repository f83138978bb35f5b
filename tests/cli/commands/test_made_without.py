"""Finished windows that ran before a new upstream: `plan`, `status` and `run` report them."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from logdriven_dagster.testing import NullEngine
from logdriven_dagster.testing.null_engine import null_engine
from tests.clock_changes import null_table

NOW = ("--now", "2022-01-04")
MADE = {
    "table": "t.b",
    "upstream": "t.a",
    "data_range_start": "2022-01-01T00:00:00+00:00",
    "data_range_end": "2022-01-03T00:00:00+00:00",
}
TEXT = "t.b: finished windows in [2022-01-01, 2022-01-03) ran without t.a"


@pytest.fixture
def folder(tmp_path: Path, logdriven, monkeypatch) -> Iterator[Path]:
    """A table with two finished days, which depends on a new table from now on."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "tables").mkdir()
    (tmp_path / "logdriven.yaml").write_text("project: p\ntimezone: UTC\n")
    (tmp_path / "tables/b.yaml").write_text(null_table("t.b", "1 day", "2022-01-01"))
    with null_engine(NullEngine()):
        logdriven("run", "--now", "2022-01-03")
        (tmp_path / "tables/a.yaml").write_text(null_table("t.a", "1 day", "2022-01-01"))
        (tmp_path / "tables/b.yaml").write_text(null_table("t.b", "1 day", "2022-01-01", "t.a"))
        yield tmp_path


def test_plan_and_status_report_them(folder: Path, logdriven):
    for command in ("plan", "status"):
        assert TEXT in logdriven(command, *NOW).out
    windows = logdriven("plan", "--json", *NOW).json
    assert {each["table"]: each.get("made_without") for each in windows} == {
        "t.a": None,
        "t.b": [MADE],
    }
    status = logdriven("status", "--json", *NOW).json["tables"]
    assert {each["table"]: each["made_without"] for each in status} == {"t.a": [], "t.b": [MADE]}


def test_run_reports_them_before_it_begins_and_in_its_result(folder: Path, logdriven):
    done = logdriven("run", "--json", *NOW)
    assert TEXT in done.err
    assert done.json["made_without"] == [MADE]
    again = logdriven("run", "--json", *NOW)
    assert (again.err, again.json["made_without"]) == ("", [])
