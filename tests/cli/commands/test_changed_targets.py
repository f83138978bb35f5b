"""A target that is changed over existing rows: `plan`, `status`, `run` and `refresh` report it."""

import json
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest

from logdriven_dagster.testing import NullEngine
from logdriven_dagster.testing.null_engine import null_engine
from tests.cli.shop_log import KEYS

TABLE = """\
table: ods.a
period: 1 day
default_start: 2022-01-01
steps:
  - step: load
    sql: SELECT 1 AS id
    target: {target}
"""
UPSERT = "{type: iceberg, mode: upsert, key: [id]}"


@pytest.fixture
def folder(tmp_path: Path, logdriven, monkeypatch) -> Iterator[Path]:
    """A project whose first two days were upserted."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "tables").mkdir()
    (tmp_path / "logdriven.yaml").write_text("project: p\ntimezone: UTC\n")
    write(tmp_path, UPSERT)
    with null_engine(NullEngine()):
        logdriven("run", "--now", "2022-01-03")
        yield tmp_path


def write(folder: Path, target: str) -> None:
    (folder / "tables/a.yaml").write_text(TABLE.format(target=target))


@pytest.mark.sampled
@pytest.mark.parametrize(
    ("target", "effect"),
    [
        ("{type: iceberg}", "one of their rows may be there twice"),
        ("{type: iceberg, mode: append}", "one of their rows may be there twice"),
        ("{type: iceberg, mode: upsert, key: [other]}", "one of their rows may be there twice"),
        ("{type: iceberg, mode: overwrite}", "the next window replaces all of their rows"),
        ("{type: parquet}", "their rows are only in the earlier place"),
    ],
)
def test_another_way_of_writing_is_reported_before_a_window_runs(
    folder: Path, logdriven, target: str, effect: str
):
    write(folder, target)
    command = "`logdriven refresh ods.a --from 2022-01-01 --to 2022-01-03`"
    for arguments in (["plan"], ["status"]):
        out = logdriven(*arguments, "--now", "2022-01-03").out
        assert effect in out
        assert command in out
    assert effect in logdriven("run", "--now", "2022-01-03").err


def test_a_refresh_reports_it_until_all_windows_are_written_in_the_new_way(folder, logdriven):
    write(folder, "{type: iceberg}")
    now = ("--now", "2022-01-03")
    first = logdriven("refresh", "ods.a", "--from", "2022-01-01", "--to", "2022-01-02", *now)
    assert (
        "were written with mode upsert, key [id], but the definition has mode overwrite_window"
        in first.err
    )
    rest = "--from 2022-01-02 --to 2022-01-03"
    assert rest in logdriven("plan", *now).out
    logdriven("refresh", "ods.a", *rest.split(), *now)
    assert "were written with" not in logdriven("plan", *now).out


def test_programs_read_it_with_the_range_to_refresh(folder: Path, logdriven):
    write(folder, "{type: iceberg}")
    (window,) = json.loads(logdriven("plan", "--now", "2022-01-04", "--json").out)
    (table,) = json.loads(logdriven("status", "--now", "2022-01-04", "--json").out)["tables"]
    assert window["changed_target"] == table["changed_target"]
    assert window["changed_target"] == {
        "was": "mode upsert, key [id]",
        "now": "mode overwrite_window, key []",
        "effect": "if one of them runs again by itself, one of their rows may be there twice",
        "data_range_start": "2022-01-01T00:00:00+00:00",
        "data_range_end": "2022-01-03T00:00:00+00:00",
    }


def test_a_change_of_the_query_is_none_of_the_target(folder: Path, logdriven):
    (folder / "tables/a.yaml").write_text(
        TABLE.format(target=UPSERT).replace("SELECT 1", "SELECT 2")
    )
    assert "were written with" not in logdriven("plan", "--now", "2022-01-03").out


def test_another_case_of_a_key_column_is_no_change(folder: Path, logdriven):
    write(folder, UPSERT.replace("[id]", "[ID]"))
    assert "were written with" not in logdriven("plan", "--now", "2022-01-03").out


def test_another_order_of_key_columns_is_no_change(folder: Path, logdriven):
    write(folder, UPSERT.replace("[id]", "[id, Day]"))
    logdriven("refresh", "ods.a", "--from", "2022-01-01", "--to", "2022-01-03")
    write(folder, UPSERT.replace("[id]", "[day, id]"))
    assert "were written with" not in logdriven("plan", "--now", "2022-01-03").out


def test_another_incremental_type_is_reported(folder: Path, logdriven):
    text = TABLE.format(target=UPSERT) + "incremental_type: full\n"
    (folder / "tables/a.yaml").write_text(text)
    out = logdriven("plan", "--now", "2022-01-03").out
    assert "with incremental_type time_window, but the definition has incremental_type full" in out


def test_another_source_of_keys_is_reported_until_a_window_has_read_it(
    tmp_path: Path, logdriven, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "tables").mkdir()
    (tmp_path / "logdriven.yaml").write_text(
        "project: p\nconnections: {lite: {url: 'sqlite:///lite.db'}}\n"
    )
    with sqlite3.connect(tmp_path / "lite.db") as conn:
        conn.execute("CREATE TABLE orders AS SELECT 5 AS id, 7 AS seq")
    (tmp_path / "tables/keys.yaml").write_text(KEYS)
    effect = "the next window begins after the last key; rows with lower keys are not loaded"
    with null_engine(NullEngine()):
        logdriven("run", "--now", "2022-01-01")
        (tmp_path / "tables/keys.yaml").write_text(
            KEYS.replace("key_column: id", "key_column: seq")
        )
        for command in ("plan", "status"):
            out = logdriven(command, "--now", "2022-01-02").out
            assert "were written with key_column id, but the definition has key_column seq" in out
            assert effect in out
        assert effect in logdriven("run", "--now", "2022-01-02").err
        assert effect not in logdriven("plan", "--now", "2022-01-03").out
