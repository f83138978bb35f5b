"""A table whose file is gone: `status` names what is left of it, `forget` removes it."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from logdriven_dagster.testing import NullEngine
from logdriven_dagster.testing.null_engine import null_engine
from tests.clock_changes import null_table

NOW = ("--now", "2022-01-03")


@pytest.fixture
def folder(tmp_path: Path, logdriven, monkeypatch) -> Iterator[Path]:
    """A project of two tables that ran for two days, of which one was removed."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "tables").mkdir()
    (tmp_path / "logdriven.yaml").write_text("project: p\ntimezone: UTC\n")
    for name in ("ods.gone", "ods.kept"):
        text = null_table(name, "1 day", "2022-01-01")
        (tmp_path / f"tables/{name}.yaml").write_text(text)
    with null_engine(NullEngine()):
        logdriven("run", *NOW)
        (tmp_path / "tables/ods.gone.yaml").unlink()
        yield tmp_path


def test_status_names_what_is_left_of_a_removed_table(folder: Path, logdriven):
    for _ in range(2):  # before its removal is registered, and after
        out = logdriven("status", *NOW).out
        assert (
            "ods.gone is not defined any more, but the run log has 2 attempts of it, and its" in out
        )
        assert "/ods/gone; remove it from the run log with `logdriven forget ods.gone`" in out
        logdriven("apply")
    (removed,) = json.loads(logdriven("status", "--json", *NOW).out)["removed_tables"]
    assert (removed["table"], removed["attempts"]) == ("ods.gone", 2)
    assert "not defined any more" not in logdriven("status", "ods.kept", *NOW).out


def test_forget_counts_asks_and_removes(folder: Path, logdriven):
    listed = json.loads(logdriven("forget", "ods.gone", "--dry-run", "--json").out)
    assert (listed["removed"], listed["rows"]["job_log"]) == (False, 2)
    assert logdriven("forget", "ods.gone").code == 1  # nobody answers
    done = logdriven("forget", "ods.gone", "--yes")
    assert done.out.endswith("rows of ods.gone removed from the run log.\n")
    assert "not defined any more" not in logdriven("status", *NOW).out
    assert logdriven("plan", *NOW).code == 0
    assert "has no rows of ods.gone" in logdriven("forget", "ods.gone", "--yes").err


def test_a_table_that_is_defined_or_unknown_is_not_forgotten(folder: Path, logdriven):
    defined = logdriven("forget", "ods.kept", "--yes")
    assert (defined.code, "remove its file first" in defined.err) == (2, True)
    assert "has never had a table ods.never" in logdriven("forget", "ods.never", "--yes").err
