"""`logdriven changes` says what edited files do before they are applied."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import CommandLine

NOW = ("--now", "2022-01-04")
QUERY = "SELECT id, SUM(n) AS total, COUNT(*) AS rows FROM t WHERE id > 1 GROUP BY id"
READERS = {
    "ads.totals": "SELECT id, total * 2 AS twice, id + 1 AS next FROM dws.daily",
    "ads.rows": "SELECT rows FROM dws.daily",
    "ads.all": "SELECT * FROM dws.daily",
    "ads.filtered": "SELECT id FROM dws.daily WHERE total > 1",
}


def write(folder: Path, name: str, sql: str, **fields: object) -> None:
    step = {"step": "load", "sql": sql, "target": {"type": "iceberg"}}
    table = {"table": name, "period": "1 day", "default_start": "2022-01-01", "steps": [step]}
    (folder / "tables" / f"{name}.yaml").write_text(json.dumps({**table, **fields}))


@pytest.fixture
def folder(null_project: Path, logdriven: CommandLine) -> Path:
    """A table with three finished days, and tables that read it."""
    write(null_project, "dws.daily", QUERY)
    for name, sql in READERS.items():
        write(null_project, name, sql, depends_on=["dws.daily"])
    write(null_project, "x.last", "SELECT twice FROM ads.totals", depends_on=["ads.totals"])
    assert logdriven("run", *NOW).code == 0
    return null_project


def report(logdriven: CommandLine) -> dict[str, Any]:
    (change,) = logdriven("changes", "--json", *NOW).json
    return dict(change)


def seen(change: dict[str, Any]) -> dict[str, Any]:
    return {each["table"]: each["columns"] for each in change["seen_by"]}


def test_without_edits_the_report_is_empty(folder: Path, logdriven: CommandLine):
    assert logdriven("changes", *NOW).out == "No file differs from its registered version.\n"
    assert logdriven("changes", "--json", *NOW).json == []


def test_a_changed_filter_is_seen_by_every_reader(folder: Path, logdriven: CommandLine):
    write(folder, "dws.daily", QUERY.replace("> 1", "> 2"))
    change = report(logdriven)
    assert (change["name"], change["effect"]) == ("dws.daily", "values")
    assert change["changes"][0]["change"] == "changed filter"
    assert set(seen(change).values()) == {None}
    assert change["old_windows"]["windows"] == 3
    assert change["restated"] == 0
    assert next(each["table"] for each in change["recomputation"]) == "dws.daily"
    assert change["recomputation"][0]["windows"] == 3


def test_a_changed_column_is_seen_by_the_columns_made_from_it(folder: Path, logdriven: CommandLine):
    write(folder, "dws.daily", QUERY.replace("SUM(n)", "SUM(n + 1)"))
    change = report(logdriven)
    found = seen(change)
    assert found == {
        "ads.totals": ["twice"],
        "ads.all": None,
        "ads.filtered": None,
        "x.last": ["twice"],
    }
    (last,) = [each for each in change["seen_by"] if each["table"] == "x.last"]
    assert last["through"] == "ads.totals"


def test_a_new_column_is_seen_by_star_only(folder: Path, logdriven: CommandLine):
    write(folder, "dws.daily", QUERY.replace("AS rows", "AS rows, MAX(n) AS top"))
    change = report(logdriven)
    assert change["effect"] == "additive"
    assert seen(change) == {"ads.all": ["top"]}


def test_a_cosmetic_change_has_no_readers_and_no_old_windows(folder: Path, logdriven: CommandLine):
    write(folder, "dws.daily", QUERY.lower(), description="Daily.")
    change = report(logdriven)
    assert (change["effect"], change["seen_by"], change["old_windows"]) == ("cosmetic", [], None)


def test_the_text_names_class_windows_readers_and_costs(folder: Path, logdriven: CommandLine):
    write(folder, "dws.daily", QUERY.replace("> 1", "> 2"), on_change={"restate": {"last": "1 d"}})
    out = logdriven("changes", *NOW).out
    assert "dws.daily  values\n  values: changed filter (step load)\n" in out
    assert "3 of 3 windows by version 1; on_change restates 1 of them" in out
    assert "to run them all again: dws.daily 3 windows, ≈ " in out
    assert "seen by: ads.all (all rows), " in out


def test_markdown_is_a_table(folder: Path, logdriven: CommandLine):
    write(folder, "dws.daily", QUERY.replace("> 1", "> 2"))
    head, _, row = logdriven("changes", "--markdown", *NOW).out.splitlines()
    assert head == "| table | class | change | windows | seen by |"
    assert row.startswith("| dws.daily | values | changed filter | 3 of 3 windows by version 1")


@pytest.mark.parametrize(("limit", "code"), [("values", 1), ("grain", 0), ("additive", 1)])
def test_fail_on_exits_with_1_for_a_class_or_a_larger_one(
    folder: Path, logdriven: CommandLine, limit: str, code: int
):
    write(folder, "dws.daily", QUERY.replace("> 1", "> 2"))
    assert logdriven("changes", "--fail-on", limit, *NOW).code == code


def test_a_changed_period_is_of_the_grid_and_makes_no_window_old(
    folder: Path, logdriven: CommandLine
):
    write(folder, "dws.daily", QUERY, period="12 h")
    change = report(logdriven)
    assert (change["effect"], change["old_windows"]) == ("grid", None)


def test_a_new_and_a_deleted_table_are_named(folder: Path, logdriven: CommandLine):
    (folder / "tables" / "x.last.yaml").unlink()
    write(folder, "x.new", "SELECT 1 AS one")
    found = {each["name"]: each for each in logdriven("changes", "--json", *NOW).json}
    assert (found["x.last"]["effect"], found["x.last"]["operation"]) == ("shape", "delete")
    assert found["x.last"]["remains"]["attempts"] == 3
    assert found["x.new"]["operation"] == "add"
    out = logdriven("changes", *NOW).out
    assert "x.new  new" in out
    assert "the run log has 3 attempts of it, and its rows remain in iceberg x.last in " in out
    assert "remove it from the run log with `logdriven forget x.last`" in out
    assert "`logdriven forget x.last`" in logdriven("status", *NOW).out


def test_a_renamed_table_is_compared_with_its_earlier_name(folder: Path, logdriven: CommandLine):
    (folder / "tables" / "x.last.yaml").unlink()
    sql, depends_on = "SELECT twice FROM ads.totals", ["ads.totals"]
    write(folder, "x.first", sql, depends_on=depends_on, renamed_from="x.last")
    assert report(logdriven)["effect"] == "cosmetic"


def test_rows_that_cannot_be_made_again_are_named(folder: Path, logdriven: CommandLine):
    write(folder, "x.full", "SELECT 1 AS one", incremental_type="full")
    assert logdriven("run", *NOW).code == 0
    write(folder, "x.full", "SELECT 2 AS one", incremental_type="full")
    gone = ["earlier snapshots: the source has only its present rows"]
    assert report(logdriven)["not_recomputable"] == gone


def test_a_change_of_the_project_is_one_of_all_tables(folder: Path, logdriven: CommandLine):
    (folder / "logdriven.yaml").write_text("project: p\ntimezone: Europe/Berlin\n")
    found = {each["name"]: each for each in logdriven("changes", "--json", *NOW).json}
    assert (found["p"]["kind"], found["p"]["effect"]) == ("project", "grid")
