"""What tables of others require of a commit: each is met, or the window is refused by name."""

import json
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from logdriven_dagster.errors import TerminalStepError
from tests.builders import day
from tests.engine.laboratory import Lab
from tests.plugins.delta.foreign_tables import QUERY, add_foreign_rows, folder, load_days, vector

CONDITIONS = {
    "check": (
        {"settings": {"delta.constraints.small": "v < 2"}},
        "checkConstraints",
        r"1 rows break the CHECK constraint small: \(v < 2\)",
    ),
    "check that is NULL": (
        {"settings": {"delta.constraints.known": "nullif(v, 2) > 0"}},
        "checkConstraints",
        r"1 rows break the CHECK constraint known",
    ),
    "invariant": (
        {
            "column": {
                "metadata": {
                    "delta.invariants": json.dumps({"expression": {"expression": "v <> 1"}})
                }
            }
        },
        "invariants",
        r"1 rows break the invariant of column v: \(v <> 1\)",
    ),
    "generated": (
        {"column": {"metadata": {"delta.generationExpression": "day + 1"}}},
        "generatedColumns",
        r"1 rows break the generated column v: .*day \+ 1",
    ),
}


@pytest.mark.parametrize("name", CONDITIONS)
def test_rows_that_break_a_condition_of_the_table_are_not_published(lab: Lab, name: str):
    given, feature, problem = CONDITIONS[name]
    add_foreign_rows(lab, feature, **given)
    load_days(lab)
    with pytest.raises(TerminalStepError, match=problem):
        lab.run("ods.t", day(1))
    assert lab.rows("ods.t") == [(0, 0)]


@pytest.mark.parametrize("name", ["check", "generated"])
def test_rows_that_meet_the_conditions_of_the_table_are_published(lab: Lab, name: str):
    given, feature, _ = CONDITIONS[name]
    add_foreign_rows(lab, feature, **given)
    value = "1" if name == "check" else "int(day(:data_range_start)) + 1"
    load_days(lab, f"SELECT int(day(:data_range_start)) AS day, {value} AS v")
    lab.run("ods.t", day(1))
    assert lab.rows("ods.t") == [(0, 0), (1, 1 if name == "check" else 2)]


def test_a_column_that_must_not_be_null_has_a_value_in_each_row(lab: Lab):
    add_foreign_rows(lab, "invariants", column={"nullable": False})
    load_days(
        lab,
        "SELECT int(day(:data_range_start)) AS day, nullif(v, 2) AS v FROM VALUES (1), (2) t(v)",
    )
    with pytest.raises(TerminalStepError, match="1 rows break NOT NULL of column v"):
        lab.run("ods.t", day(1))
    load_days(lab)
    lab.run("ods.t", day(1))
    assert lab.rows("ods.t") == [(0, 0), (1, 1), (1, 2)]


def test_the_condition_of_an_upsert_holds_for_columns_that_stay(lab: Lab):
    """A new key has NULL in the columns that the step does not give."""
    add_foreign_rows(lab, "invariants", column={"nullable": False})
    target = {"type": "delta", "mode": "upsert", "key": ["day"]}
    for value, works in ((0, True), (7, False)):
        lab.table(
            "ods.t", {"sql": f"SELECT {value} AS day", "target": target}, missing_columns="allow"
        )
        if works:
            lab.run("ods.t", day(1))
        else:
            with pytest.raises(TerminalStepError, match="1 rows break NOT NULL of column v"):
                lab.run("ods.t", day(2))
    assert lab.rows("ods.t") == [(0, 0)]


def test_a_condition_that_calls_java_is_refused(lab: Lab):
    called = "reflect('java.lang.System', 'exit', 0) IS NULL"
    add_foreign_rows(lab, "checkConstraints", settings={"delta.constraints.c": called})
    load_days(lab)
    with pytest.raises(TerminalStepError, match="constraint c calls Java code"):
        lab.run("ods.t", day(1))


def test_an_append_only_table_gains_windows_and_loses_none(lab: Lab):
    add_foreign_rows(lab, "appendOnly", settings={"delta.appendOnly": "true"})
    load_days(lab)
    for n in (1, 2):
        lab.run("ods.t", day(n))
    with pytest.raises(TerminalStepError, match=r"append-only \(delta.appendOnly\).*mode: append"):
        lab.run("ods.t", day(1))
    assert lab.rows("ods.t") == [(0, 0), (1, 1), (1, 2), (2, 1), (2, 2)]


def changes(lab: Lab, version: int) -> list[tuple[Any, ...]]:
    """The feed of one version, as delta-rs reads it."""
    read = DeltaTable(folder(lab)).load_cdf(starting_version=version, ending_version=version)
    found = pa.table(read.read_all()).to_pylist()
    return sorted((row["_change_type"], row["day"], row["v"]) for row in found)


def test_the_change_data_feed_shows_replaced_windows(lab: Lab):
    add_foreign_rows(lab, "changeDataFeed", settings={"delta.enableChangeDataFeed": "true"})
    load_days(lab)
    lab.run("ods.t", day(1))
    version = DeltaTable(folder(lab)).version()
    assert changes(lab, version) == [("insert", 1, 1), ("insert", 1, 2)]
    load_days(lab, QUERY.replace("(2)", "(3)"))
    lab.run("ods.t", day(1))
    deleted = [("delete", 1, 1), ("delete", 1, 2)]
    assert changes(lab, version + 1) == [*deleted, ("insert", 1, 1), ("insert", 1, 3)]


def test_unchanged_rows_are_not_rewritten_with_a_change_data_feed(lab: Lab):
    add_foreign_rows(lab, "changeDataFeed", settings={"delta.enableChangeDataFeed": "true"})
    target = {"type": "delta", "mode": "upsert", "key": ["day"]}
    lab.table("ods.t", {"sql": "SELECT 0 AS day, 9 AS v", "target": target})
    with pytest.raises(TerminalStepError, match=r"change data feed.*enableChangeDataFeed"):
        lab.run("ods.t", day(1))
    lab.table("ods.t", {"sql": "SELECT 5 AS day, 9 AS v", "target": target})
    lab.run("ods.t", day(1))
    assert lab.rows("ods.t") == [(0, 0), (5, 9)]


def test_a_file_with_a_deletion_vector_is_not_replaced(lab: Lab):
    readers = ("deletionVectors",)
    settings = {"delta.enableDeletionVectors": "true"}
    add_foreign_rows(lab, settings=settings, readers=readers, deletionVector=vector([0]))
    load_days(lab)
    for n in (1, 1):
        lab.run("ods.t", day(n))
    assert lab.rows("ods.t") == [(1, 1), (1, 2)]
    lab.table("ods.t", {"sql": QUERY, "target": {"type": "delta", "mode": "overwrite"}})
    with pytest.raises(TerminalStepError, match=r"deletion vector deletes rows.*REORG TABLE"):
        lab.run("ods.t", day(2))
    assert lab.rows("ods.t") == [(1, 1), (1, 2)]


def test_a_checkpoint_keeps_deletion_vectors_and_conditions(lab: Lab):
    """delta-rs writes one after some commits; without older commits it is all that is left."""
    settings = {
        "delta.enableDeletionVectors": "true",
        "delta.checkpointInterval": "2",
        "delta.constraints.small": "v < 3",
    }
    readers = ("deletionVectors",)
    given = {"settings": settings, "readers": readers, "deletionVector": vector([0])}
    add_foreign_rows(lab, "checkConstraints", **given)
    load_days(lab)
    for n in (1, 2, 3):
        lab.run("ods.t", day(n))
    commits = folder(lab) / "_delta_log"
    newest = max(commits.glob("*.checkpoint.parquet")).name.partition(".")[0]
    for path in commits.glob("*.json"):
        if path.name.partition(".")[0] < newest:
            path.unlink()
    assert lab.rows("ods.t") == [(n, v) for n in (1, 2, 3) for v in (1, 2)]
    load_days(lab, QUERY.replace("(2)", "(3)"))
    with pytest.raises(TerminalStepError, match="constraint small"):
        lab.run("ods.t", day(4))
