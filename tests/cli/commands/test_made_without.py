"""Finished windows that ran before a new upstream: `plan`, `status` and `run` report them."""

from pathlib import Path

import pytest

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
def folder(null_project: Path, logdriven) -> Path:
    """A table with two finished days, which depends on a new table from now on."""
    (null_project / "tables/b.yaml").write_text(null_table("t.b", "1 day", "2022-01-01"))
    logdriven("run", "--now", "2022-01-03")
    (null_project / "tables/a.yaml").write_text(null_table("t.a", "1 day", "2022-01-01"))
    (null_project / "tables/b.yaml").write_text(null_table("t.b", "1 day", "2022-01-01", "t.a"))
    return null_project


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
