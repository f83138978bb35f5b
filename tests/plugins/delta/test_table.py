"""Delta tables as other engines find them: what a commit says, keeps, refuses and leaves alone."""

import json
import sys
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from deltalake.exceptions import CommitFailedError

from logdriven_dagster.errors import AttemptLostError, TerminalStepError
from logdriven_dagster.plugins.delta.target import commits as delta_commits
from tests.builders import day, days
from tests.engine.laboratory import Lab, held

QUERY = "SELECT int(day(:data_range_start)) AS day, v FROM VALUES (1), (2) AS t(v)"


def folder(lab: Lab) -> Path:
    return lab.warehouse / "ods/t"


def log(lab: Lab) -> DeltaTable:
    return DeltaTable(folder(lab))


def make(lab: Lab, sql: str = QUERY, **target: Any) -> None:
    lab.table("ods.t", {"sql": sql, "target": {"type": "delta", **target}})


def as_delta_rs_reads(lab: Lab) -> list[tuple[Any, ...]]:
    table = log(lab).to_pyarrow_table().drop_columns(["_window_start"])
    return sorted(tuple(row.values()) for row in table.to_pylist())


def commit(lab: Lab, version: int) -> list[dict[str, Any]]:
    """The actions of one commit."""
    lines = (folder(lab) / f"_delta_log/{version:020}.json").read_text().splitlines()
    return [json.loads(line) for line in lines]


def test_another_reader_finds_the_same_rows(lab: Lab):
    make(lab)
    for n in (1, 2, 1):
        lab.run("ods.t", day(n))
    assert as_delta_rs_reads(lab) == lab.rows("ods.t") == [(1, 1), (1, 2), (2, 1), (2, 2)]
    assert log(lab).count() == 4


def test_a_commit_carries_the_attempt_and_its_window(lab: Lab):
    make(lab)
    ran = lab.run("ods.t", day(1), fencing_token=77)
    (published,) = ran.published
    said = log(lab).history(1)[0]
    assert str(said["version"]) == published.snapshot_id
    (mine,) = said["logdriven"]
    assert (mine["data_range_start"], mine["fencing_token"]) == ("20220101000000", 77)
    assert (published.rows, published.table_rows) == (2, 2)


def test_a_commit_on_a_version_that_is_not_the_newest_fails(lab: Lab):
    """Nothing is tried again on what another writer has made of the table meanwhile."""
    make(lab)
    lab.run("ods.t", day(1))
    late = log(lab)
    lab.run("ods.t", day(2))
    with pytest.raises(CommitFailedError):
        late.create_write_transaction(
            [], "append", late.schema(), commit_properties=delta_commits._once({}, {})
        )
    assert log(lab).version() == late.version() + 1


def test_of_several_who_make_a_table_at_once_one_does(lab: Lab):
    schema = lab.spark.createDataFrame([], "v INT").schema
    table = f"{lab.project.warehouse}/ods/t", lab.project.storage, schema
    with ThreadPoolExecutor(6) as pool:
        makers = [pool.submit(delta_commits.create_table, *table) for _ in range(6)]
        for made in makers:
            made.result()
    assert log(lab).version() == 0


def test_a_window_replaces_files_as_a_whole_where_they_are_its_own(lab: Lab):
    make(lab)
    for n in (1, 2, 2):
        lab.run("ods.t", day(n))
    kinds = [next(iter(action)) for action in commit(lab, 3)]
    assert sorted(kinds) == ["add", "commitInfo", *["remove"], *["txn"] * 4]


def test_data_files_carry_statistics_of_their_columns(lab: Lab):
    sql = """SELECT :data_range_start AS at, date(:data_range_start) AS day, 'x' AS text,
        CAST(1.25 AS DECIMAL(9, 2)) AS money, named_struct('n', 3) AS deep, array(1) AS list,
        CAST(NULL AS INT) AS nothing, repeat('z', 40) AS long, double('NaN') AS odd"""
    make(lab, sql)
    lab.run("ods.t", day(1))
    (add,) = (each["add"] for each in commit(lab, 1) if "add" in each)
    stats = json.loads(add["stats"])
    at = "2021-12-31T16:00:00.000000Z" if lab.project.zone.key == "Asia/Shanghai" else None
    least = stats["minValues"]
    assert stats["numRecords"] == 1
    assert at is None or least["at"] == at
    assert (least["day"], least["text"], least["money"]) == ("2022-01-01", "x", 1.25)
    assert least["deep"] == {"n": 3}
    assert {"nothing", "list", "odd"}.isdisjoint(least)
    assert stats["nullCount"]["nothing"] == 1
    assert stats["maxValues"]["long"] > "z" * 40


def test_a_window_opens_only_files_that_can_hold_its_rows(lab: Lab):
    make(lab)
    for n in (1, 2, 3):
        lab.run("ods.t", day(n))
    assert len(lab.engine.read("ods.t", day(2)).inputFiles()) == 1
    assert len(lab.engine.read("ods.t").inputFiles()) == 3


def test_rows_of_other_windows_in_the_same_file_stay(lab: Lab):
    """They were one window when it was written."""
    query = """
        SELECT :data_range_start + make_dt_interval(id % 2) AS at, id AS v, '{}' AS who
        FROM range(1, 5)"""
    step = {"type": "delta", "window_column": "at"}
    lab.table("ods.t", {"sql": query.format("both"), "target": step}, period="2 days")
    lab.run("ods.t", days(1, 3))
    one = "SELECT :data_range_start AS at, 9L AS v, 'alone' AS who"
    lab.table("ods.t", {"sql": one, "target": step})
    lab.run("ods.t", day(2))
    found = [(row[0].day, row[1], row[2]) for row in lab.rows("ods.t")]
    assert sorted(found) == [(1, 2, "both"), (1, 4, "both"), (2, 9, "alone")]


def forget_commits(lab: Lab) -> None:
    """Clean the log as any engine does after a while: only the checkpoint is left."""
    table = log(lab)
    table.create_checkpoint()
    for file in (folder(lab) / "_delta_log").glob("*.json"):
        file.unlink()


@pytest.mark.parametrize("mode", ["append", "overwrite_window"])
def test_a_publication_is_found_again_when_its_commit_is_cleaned_away(lab: Lab, mode: str):
    make(lab, mode=mode)
    with lab.session("ods.t", day(1)) as session:
        session.stage(lab.project.table("ods.t").steps[0])
        keeper, staged = session._staged["step_1"]
        keeper.publish(staged, held)
        lab.run("ods.t", day(2))
        forget_commits(lab)
        before = log(lab).version()
        (again,) = keeper.publish(staged, held)
    assert (again.rows, again.table_rows, log(lab).version()) == (2, 4, before)
    assert lab.rows("ods.t") == [(1, 1), (1, 2), (2, 1), (2, 2)]


def test_a_fence_holds_when_its_commit_is_cleaned_away(lab: Lab):
    make(lab)
    lab.run("ods.t", day(1))
    with lab.session("ods.t", day(1)) as zombie, lab.session("ods.t", day(1)) as successor:
        zombie.stage(lab.project.table("ods.t").steps[0])
        successor.fence()
        forget_commits(lab)
        with pytest.raises(AttemptLostError):
            zombie.publish("step_1", held)


def test_a_fence_of_an_older_window_hides_no_newer_one(lab: Lab):
    make(lab)
    lab.run("ods.t", day(1), fencing_token=50)
    with lab.session("ods.t", day(2), fencing_token=40) as session:
        session.fence()
    with lab.session("ods.t", day(1), fencing_token=45) as zombie:
        zombie.stage(lab.project.table("ods.t").steps[0])
        with pytest.raises(AttemptLostError):
            zombie.publish("step_1", held)


def test_columns_come_and_keep_their_place(lab: Lab):
    make(lab)
    lab.run("ods.t", day(1))
    make(lab, QUERY.replace("v FROM", "v, 'x' AS w, timestamp_ntz'2022-01-01' AS clock FROM"))
    lab.run("ods.t", day(2))
    assert lab.rows("ods.t", day(1)) == [(1, 1, None, None), (1, 2, None, None)]
    assert lab.rows("ods.t", day(2))[0] == (2, 1, "x", datetime(2022, 1, 1))
    assert log(lab).protocol().writer_features == ["timestampNtz"]
    assert len(as_delta_rs_reads(lab)) == 4


def test_a_type_that_would_have_to_grow_is_refused_by_the_column(lab: Lab):
    make(lab)
    lab.run("ods.t", day(1))
    make(lab, QUERY.replace("v FROM", "bigint(v) AS v FROM"))
    with pytest.raises(TerminalStepError, match=r"column v is int in the Delta table.*bigint"):
        lab.run("ods.t", day(2))


def test_without_the_package_the_error_names_the_extra(lab: Lab, monkeypatch):
    make(lab)
    monkeypatch.setitem(sys.modules, "deltalake", None)
    with pytest.raises(TerminalStepError, match=r"pip install 'logdriven_dagster\[delta\]'"):
        lab.run("ods.t", day(1))


def test_what_of_the_protocol_cannot_be_written_is_named_before_anything_runs(lab: Lab):
    make(lab)
    others = pa.table({"day": pa.array([0], pa.int32()), "v": pa.array([0], pa.int32())})
    write_deltalake(folder(lab), others)
    first = commit(lab, 0)
    for action in first:
        if "metaData" in action:
            action["metaData"]["configuration"]["delta.columnMapping.mode"] = "color"
    write(lab, first)
    with pytest.raises(TerminalStepError, match=r"since it uses .*column mapping by color"):
        lab.run("ods.t", day(1))
    assert not (folder(lab) / "data").exists()


def write(lab: Lab, actions: list[dict[str, Any]]) -> None:
    """Put other actions in the place of the first commit."""
    path = folder(lab) / "_delta_log" / f"{0:020}.json"
    path.write_text("".join(json.dumps(action) + "\n" for action in actions))


@pytest.mark.parametrize(
    ("feature", "metadata", "text"),
    [
        ("changeDataFeed", {}, ""),
        ("rowTracking", {}, "rowTracking"),
        ("catalogManaged", {}, "(?i)catalog.?managed"),
        ("clustering", {}, "clustering"),
        ("identityColumns", {"delta.identity.start": 1}, r"an identity column \(column v\)"),
        ("somethingNew", {}, "somethingNew"),
    ],
)
def test_features_are_judged_by_their_use(lab: Lab, feature: str, metadata: Any, text: str):
    """What a table lists and does not use is no obstacle."""
    make(lab, existing_rows="keep")
    others = pa.table({"day": pa.array([0], pa.int32()), "v": pa.array([0], pa.int32())})
    write_deltalake(folder(lab), others)
    first = commit(lab, 0)
    for action in first:
        if "protocol" in action:
            action["protocol"] = {"minReaderVersion": 1, "minWriterVersion": 7}
            action["protocol"]["writerFeatures"] = [feature]
        if "metaData" in action:
            schema = json.loads(action["metaData"]["schemaString"])
            schema["fields"][1]["metadata"] = metadata
            action["metaData"]["schemaString"] = json.dumps(schema)
    write(lab, first)
    if text:
        with pytest.raises(TerminalStepError, match=text):
            lab.run("ods.t", day(1))
    else:
        lab.run("ods.t", day(1))
        assert lab.rows("ods.t") == [(0, 0), (1, 1), (1, 2)]


def test_kept_existing_rows_are_not_rewritten(lab: Lab):
    others = pa.table({"day": pa.array([0], pa.int32()), "v": pa.array([0], pa.int32())})
    write_deltalake(folder(lab), others)
    before = set(log(lab).file_uris())
    make(lab, existing_rows="keep")
    for n in (1, 2, 1):
        lab.run("ods.t", day(n))
    assert before < set(log(lab).file_uris())
    assert lab.rows("ods.t")[0] == (0, 0)


def test_a_long_log_is_read_from_its_last_checkpoint(lab: Lab, monkeypatch):
    monkeypatch.setitem(delta_commits.PROPERTIES, "delta.checkpointInterval", "2")
    make(lab)
    for n in (1, 2, 3):
        lab.run("ods.t", day(n))
    assert list((folder(lab) / "_delta_log").glob("*.checkpoint.parquet"))
    assert len(lab.rows("ods.t")) == 6
