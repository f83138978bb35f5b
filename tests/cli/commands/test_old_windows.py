"""`status`, `plan` and `run` say which windows older versions of a table made."""

from datetime import timedelta
from pathlib import Path

import pytest

from logdriven_dagster.execution.definitions.registering import consult
from logdriven_dagster.execution.upkeep import archive_log
from tests.cli.conftest import CommandLine

TABLE = """
table: dws.daily
description: {description}
period: 1 day
default_start: 2022-01-01
steps:
  - step: load
    sql: {sql}
    target: {{type: iceberg}}
"""
NOW = ("--now", "2022-01-04")


def write(folder: Path, sql: str = "SELECT id FROM t WHERE id > 1", description: str = "A") -> None:
    text = TABLE.format(sql=sql, description=description)
    (folder / "tables" / "daily.yaml").write_text(text)


@pytest.fixture
def folder(null_project: Path, logdriven: CommandLine) -> Path:
    """A project of one table with three finished days."""
    write(null_project)
    assert logdriven("run", *NOW).code == 0
    return null_project


CHANGED = "SELECT id FROM t WHERE id > 2"


def test_a_changed_query_makes_all_finished_windows_old(folder: Path, logdriven: CommandLine):
    write(folder, CHANGED)
    assert logdriven("apply").code == 0
    text = "dws.daily: 3 of 3 windows by version 1 (2: changed filter)"
    assert text in logdriven("status", *NOW).out
    assert text in logdriven("plan", *NOW).out


def test_a_run_ends_with_the_windows_by_older_versions(folder: Path, logdriven: CommandLine):
    write(folder, CHANGED)
    text = "3 of 4 windows by version 1 (2: changed filter)"
    assert text in logdriven("run", "--now", "2022-01-05").out
    assert logdriven("run", "--json", "--now", "2022-01-05").json["old_windows"] == [
        {
            "table": "dws.daily",
            "windows": 3,
            "finished": 4,
            "versions": [{"version": 1, "windows": 3}],
            "changes": [{"version": 2, "change": "changed filter"}],
        }
    ]


def test_old_windows_are_part_of_the_json_of_status_and_plan(folder: Path, logdriven: CommandLine):
    write(folder, CHANGED)
    assert logdriven("apply").code == 0
    (table,) = logdriven("status", *NOW, "--json").json["tables"]
    assert table["old_windows"]["windows"] == 3
    (window,) = logdriven("plan", "--now", "2022-01-05", "--json").json
    assert window["old_windows"]["finished"] == 3


@pytest.mark.parametrize(
    "changes",
    [
        {"description": "B"},
        {"sql": "select id from t where id > 1"},
        {"sql": "SELECT id /* the key */ FROM t WHERE (id > 1)"},
    ],
    ids=["description", "case", "comment"],
)
def test_a_cosmetic_change_makes_no_window_old(
    folder: Path, logdriven: CommandLine, changes: dict[str, str]
):
    write(folder, **changes)
    assert logdriven("apply").code == 0
    assert "by version" not in logdriven("status", *NOW).out


def test_a_window_that_ran_again_is_not_old_any_more(folder: Path, logdriven: CommandLine):
    write(folder, CHANGED)
    assert logdriven("refresh", "dws.daily", "--window", "2022-01-02", *NOW).code == 0
    assert "2 of 3 windows by version 1" in logdriven("status", *NOW).out


def test_a_rollback_makes_the_windows_of_the_version_current_again(
    folder: Path, logdriven: CommandLine
):
    write(folder, CHANGED)
    assert logdriven("refresh", "dws.daily", "--window", "2022-01-02", *NOW).code == 0
    assert logdriven("rollback", "dws.daily", "1").code == 0
    text = "1 of 3 windows by version 2 (3: changed filter)"
    assert text in logdriven("status", *NOW).out


def test_windows_of_several_versions_are_by_older_versions(folder: Path, logdriven: CommandLine):
    write(folder, CHANGED)
    assert logdriven("run", "--now", "2022-01-05").code == 0
    write(folder, "SELECT id, id + 1 AS n FROM t WHERE id > 2")
    assert logdriven("apply").code == 0
    text = "4 of 4 windows by older versions (2: changed filter; 3: added column n)"
    assert text in logdriven("status", "--now", "2022-01-05").out


def test_archived_windows_count(folder: Path, logdriven: CommandLine):
    registered = consult(folder)
    ended = timedelta(seconds=-60)  # a minute from now
    assert list(archive_log(registered.project, registered.run_log, ended))[:1] == [3]
    write(folder, CHANGED)
    assert logdriven("apply").code == 0
    assert "3 of 3 windows by version 1" in logdriven("status", *NOW).out


def test_changed_selects_the_tables_whose_files_differ_from_their_versions(
    folder: Path, logdriven: CommandLine
):
    (folder / "tables" / "other.yaml").write_text(
        (folder / "tables" / "daily.yaml").read_text().replace("dws.daily", "dws.other")
    )
    assert logdriven("apply").code == 0
    assert logdriven("plan", "changed", *NOW).code == 2
    write(folder, CHANGED)
    (table,) = logdriven("status", "changed", *NOW, "--json").json["tables"]
    assert table["table"] == "dws.daily"
    assert logdriven("run", "changed", "--now", "2022-01-05", "--json").json["done"] == 1


def test_stale_selects_the_tables_with_windows_by_older_versions(
    folder: Path, logdriven: CommandLine
):
    assert "no table is selected by stale" in logdriven("plan", "stale", *NOW).err
    write(folder, CHANGED)
    assert logdriven("apply").code == 0
    (table,) = logdriven("status", "stale", *NOW, "--json").json["tables"]
    assert table["table"] == "dws.daily"
