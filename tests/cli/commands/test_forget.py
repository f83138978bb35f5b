"""A table whose file is gone: `status` names what is left of it, `forget` removes it."""

import json
from pathlib import Path

import pytest

from tests.clock_changes import null_table

NOW = ("--now", "2022-01-03")


@pytest.fixture
def folder(null_project: Path, logdriven) -> Path:
    """A project of two tables that ran for two days, of which one was removed."""
    for name in ("ods.gone", "ods.kept"):
        text = null_table(name, "1 day", "2022-01-01")
        (null_project / f"tables/{name}.yaml").write_text(text)
    logdriven("run", *NOW)
    (null_project / "tables/ods.gone.yaml").unlink()
    return null_project


def test_status_names_what_is_left_of_a_removed_table(folder: Path, logdriven):
    for _ in range(2):  # before its removal is registered, and after
        out = logdriven("status", *NOW).out
        assert (
            "ods.gone is not defined any more, but the run log has 2 attempts of it, and its" in out
        )
        assert "/ods/gone; continue it under another name with `renamed_from: ods.gone`" in out
        assert "or remove it from the run log with `logdriven forget ods.gone`, and its" in out
        logdriven("apply")
    (removed,) = json.loads(logdriven("status", "--json", *NOW).out)["removed_tables"]
    assert (removed["table"], removed["attempts"]) == ("ods.gone", 2)
    assert "not defined any more" not in logdriven("status", "ods.kept", *NOW).out


def test_forget_counts_asks_and_removes(folder: Path, logdriven):
    listed = json.loads(logdriven("forget", "ods.gone", "--dry-run", "--json").out)
    assert (listed["removed"], listed["rows"]["job_log"]) == (False, 2)
    assert logdriven("forget", "ods.gone").code == 1  # no one answers
    done = logdriven("forget", "ods.gone", "--yes")
    assert done.out.endswith("rows of ods.gone removed from the run log.\n")
    assert "not defined any more" not in logdriven("status", *NOW).out
    assert logdriven("plan", *NOW).code == 0
    assert "has no rows of ods.gone" in logdriven("forget", "ods.gone", "--yes").err


def test_a_table_that_is_defined_or_unknown_is_not_forgotten(folder: Path, logdriven):
    for options in ([], ["--drop-target"], ["--drop-target", "--dry-run"]):
        defined = logdriven("forget", "ods.kept", "--yes", *options)
        assert (defined.code, "remove its file first" in defined.err) == (2, True)
    assert "has never had a table ods.never" in logdriven("forget", "ods.never", "--yes").err


@pytest.fixture
def filled(folder: Path) -> Path:
    """The folder of the removed table, with files as windows leave them."""
    target = folder / ".logdriven/warehouse/ods/gone"
    for name in ("_windows/20220101000000.1.1.json", "data/1-load/part.parquet"):
        (target / name).parent.mkdir(parents=True, exist_ok=True)
        (target / name).write_text("{}")
    return target


def test_forget_lists_and_removes_the_target_as_well(folder: Path, filled: Path, logdriven):
    listed = json.loads(logdriven("forget", "ods.gone", "--drop-target", "--dry-run", "--json").out)
    assert [(each["kind"], each["location"]) for each in listed["targets"]] == [
        ("pointer", f"{filled}/_windows"),
        ("rows", f"{filled}/data"),
        ("folder", str(filled)),
    ]
    asked = logdriven("forget", "ods.gone", "--drop-target")  # no one answers
    assert (asked.code, filled.is_dir()) == (1, True)
    assert f"rows  {filled}/data" in asked.err
    assert "and 3 parts of its targets?" in asked.err
    done = logdriven("forget", "ods.gone", "--drop-target", "--yes")
    assert (done.code, filled.exists(), filled.parent.is_dir()) == (0, False, True)
    assert "not defined any more" not in logdriven("status", *NOW).out


def test_an_interrupted_removal_of_the_target_is_repeated(folder: Path, filled: Path, logdriven):
    logdriven("forget", "ods.gone", "--yes")  # first without the target
    (filled / "notes.txt").write_text("of others")
    (filled / "data/report.parquet").write_text("of others")
    refused = logdriven("forget", "ods.gone", "--drop-target", "--yes")
    assert refused.code == 2
    assert f"{filled}/data/report.parquet was not written by a window" in refused.err
    assert (filled / "_windows").is_dir()
    (filled / "data/report.parquet").unlink()
    done = logdriven("forget", "ods.gone", "--drop-target", "--yes")
    assert done.code == 0, done.err
    assert [each.name for each in filled.iterdir()] == ["notes.txt"]


def test_a_shared_target_is_not_removed(folder: Path, filled: Path, logdriven):
    other = null_table("ods.other", "1 day", "2022-01-01")
    for path, problem in (
        (".logdriven/warehouse/ods/gone", "holds another table, in "),
        (".logdriven/warehouse/ods/gone/deep", "holds another table, in "),
    ):
        text = other.replace("{type: parquet}", f"{{type: parquet, path: {path}}}")
        (folder / "tables/ods.other.yaml").write_text(text)
        refused = logdriven("forget", "ods.gone", "--drop-target", "--yes")
        assert (refused.code, problem in refused.err) == (2, True), refused.err
    assert (filled / "data").is_dir()


def test_a_table_that_continues_under_another_name_is_not_forgotten(folder: Path, logdriven):
    text = null_table("ods.new", "1 day", "2022-01-01", renamed_from="ods.gone")
    (folder / "tables/ods.new.yaml").write_text(text)
    assert "ods.new continues with ods.gone" in logdriven("forget", "ods.gone", "--yes").err
    shown = logdriven("validate").out
    assert "ods.new: the next run continues with ods.gone: 2 attempts in the run log" in shown
    for command in ("plan", "status"):
        out = logdriven(command, *NOW).out
        assert "the next run continues with ods.gone" in out
        assert "not defined any more" not in out
    (window, *_) = logdriven("plan", "--json", *NOW).json
    assert window["rename"]["attempts"] == 2
    assert "Nothing to do" in logdriven("run", *NOW).out
    assert (
        "ods.new: it has the windows of ods.gone; remove renamed_from" in logdriven("validate").out
    )
