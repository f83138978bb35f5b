"""`status`, `plan`, `run` and Dagster show which source files changed after their windows ran."""

from pathlib import Path

import pytest

from logdriven_dagster import build_definitions
from logdriven_dagster.execution.definitions.registering import consult
from logdriven_dagster.model.source_rows import sum_files
from logdriven_dagster.runlog.observed import audits
from tests.builders import day
from tests.cli.conftest import CommandLine
from tests.source_files import EVENTS, count_rows

NOW = ("--now", "2022-01-04")


@pytest.fixture
def folder(null_project: Path, logdriven: CommandLine) -> Path:
    """A table with three finished days, one of whose files is gone."""
    (null_project / "tables/events.yaml").write_text(EVENTS.format(reaction="report"))
    (null_project / "in").mkdir()
    for n in (1, 2, 3):
        (null_project / f"in/{n}.csv").write_text(f"2022-01-0{n} 12:00:00")
    assert logdriven("run", *NOW).code == 0
    registered = consult(null_project)
    files = map(count_rows, (null_project / "in").iterdir())
    rows = sum_files("ods.events", "load", "settings", files)
    table = registered.project.table("ods.events")
    registered.run_log.write(lambda conn: audits.record(conn, rows, table))
    (null_project / "in/2.csv").unlink()
    return null_project


def test_plan_status_and_run_name_the_windows_and_the_files(folder: Path, logdriven: CommandLine):
    fix = "`logdriven refresh` runs these windows again, without the rows of files that are gone"
    text = f"ods.events: source files changed after {day(2)} ran: {folder}/in/2.csv (gone); {fix}"
    for command in ("plan", "status", "run"):
        assert text in logdriven(command, *NOW).out


def test_the_changes_are_part_of_the_json_of_status_and_run(folder: Path, logdriven: CommandLine):
    start, end = "2022-01-02T00:00:00+00:00", "2022-01-03T00:00:00+00:00"
    file = {"step": "load", "change": "gone", "path": f"{folder}/in/2.csv", "files": 1}
    expected = {"data_range_start": start, "data_range_end": end, "files": [file]}
    (table,) = logdriven("status", "--json", *NOW).json["tables"]
    assert table["source_changes"] == [expected]
    found = logdriven("run", "--json", *NOW).json["source_changes"]
    assert found == [{"table": "ods.events", **expected}]


def test_the_asset_page_shows_the_windows(folder: Path):
    (spec,) = build_definitions(folder).resolve_all_asset_specs()
    text = f"source files changed after {day(2)} ran: {folder}/in/2.csv (gone)"
    assert spec.metadata["source_changes"] == f"{text} (when the code location was loaded)"
