"""Delta tables of others as sources: exactly the rows of one version of their log."""

import json
from collections.abc import Iterable
from datetime import date, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from pyarrow.parquet import read_table

from logdriven_dagster.engine.looking import look
from logdriven_dagster.errors import TerminalStepError
from logdriven_dagster.testing.conformance import SourceConformance, SourceScene
from tests.builders import day
from tests.engine.laboratory import Lab
from tests.plugins.delta.foreign_tables import make, vector


def rows(*days: int, place: str = "x") -> pa.Table:
    """A row for each of these days of January, in UTC."""
    utc = [datetime(2022, 1, 1) + timedelta(days=n - 1) for n in days]
    return pa.table(
        {
            "at": pa.array(utc, pa.timestamp("us", "UTC")),
            "n": pa.array(days, pa.int64()),
            "place": [place] * len(days),
        }
    )


@pytest.fixture
def shared(lab: Lab) -> Path:
    """The folder of a table that others write: each day in a file of its own."""
    lab.settings["timezone"] = "UTC"
    folder = lab.root / "shared table"
    for n in (1, 2, 3):
        write_deltalake(folder, rows(n), mode="append")
    return folder


class TestDelta(SourceConformance):
    @pytest.fixture
    def scene(self, lab: Lab, shared: Path) -> SourceScene:
        write_deltalake(shared, rows(1, 5), mode="append")
        target = {"type": "parquet", "window_column": "at"}
        source = {"type": "delta", "path": shared.name, "window_column": "at"}
        lab.table("ods.t", {"source": source, "target": target})
        return SourceScene(project=lab.project, start=lambda: lab.engine, counts=(2, 1, 1, 0, 1))


def numbers(lab: Lab) -> list[int]:
    return sorted(row.n for row in lab.engine.read("ods.t").collect())


@pytest.mark.connect
def test_the_rows_of_the_newest_version_are_read_and_counted(lab: Lab, shared: Path):
    write_deltalake(shared, rows(7, 8), mode="overwrite")
    make(lab, shared)
    assert lab.run("ods.t", day(1)).counts.source == 2
    assert numbers(lab) == [7, 8]


def test_a_window_reads_its_own_rows_out_of_files_that_can_hold_them(lab: Lab, shared: Path):
    DeltaTable(shared).optimize.compact()
    write_deltalake(shared, rows(4), mode="append")
    make(lab, shared, window_column="AT")
    for n in (2, 4):
        assert lab.run("ods.t", day(n)).counts.target == 1
    assert numbers(lab) == [2, 4]


def test_files_of_other_windows_are_not_opened(lab: Lab, shared: Path):
    make(lab, shared, window_column="at")
    for file in shared.glob("*.parquet"):
        if read_table(file).column("n").to_pylist() == [3]:
            file.unlink()
    assert lab.run("ods.t", day(2)).counts.target == 1


def test_values_of_partitions_come_from_the_log(lab: Lab):
    """Whatever the paths say."""
    lab.settings["timezone"] = "UTC"
    folder = lab.root / "parted"
    for place in ("a b", "ü+%/1", None):
        write_deltalake(folder, rows(1, place=place), mode="append", partition_by=["place"])
    make(lab, folder, window_column="at")
    assert lab.run("ods.t", day(1)).counts.source == 3
    found = lab.engine.read("ods.t").collect()
    assert sorted((row.place for row in found), key=str) == [None, "a b", "ü+%/1"]
    assert lab.engine.read("ods.t").columns == ["at", "n", "place"]


def test_partitions_by_day_are_passed_over_by_window(lab: Lab):
    lab.settings["timezone"] = "UTC"
    folder = lab.root / "parted"
    days = pa.array([date(2022, 1, n) for n in (1, 2)])
    write_deltalake(folder, pa.table({"d": days, "n": [1, 2]}), partition_by=["d"])
    make(lab, folder, window_column="d")
    next(folder.glob("d=2022-01-01/*.parquet")).unlink()
    lab.run("ods.t", day(2))
    assert numbers(lab) == [2]


def test_a_folder_that_is_no_delta_table_is_reported_with_its_path(lab: Lab):
    make(lab, lab.root / "nothing")
    with pytest.raises(TerminalStepError, match="nothing: there is no Delta table"):
        lab.run("ods.t", day(1))


def test_rows_that_deletion_vectors_name_are_left_out(lab: Lab):
    lab.settings["timezone"] = "UTC"
    folder = lab.root / "deleted"
    write_deltalake(folder, rows(1, 2, 3, 4))

    edit(folder, lambda actions: delete(actions, [0, 2]))
    make(lab, folder)
    counts = lab.run("ods.t", day(1)).counts
    assert (counts.source, counts.target) == (2, 2)
    assert numbers(lab) == [2, 4]
    lost = {"storageType": "u", "pathOrInlineDv": "ab^-aqEH.-t@S}K{vb[*k^", "offset": 1}
    edit(folder, lambda actions: give(actions, deletionVector={**vector([0, 2]), **lost}))
    with pytest.raises(TerminalStepError, match=r"deleted: a deletion vector cannot be read: .*"):
        lab.run("ods.t", day(1))


def delete(actions: list[Any], deleted: list[int]) -> None:
    """Let a deletion vector name rows of the file of a commit."""
    for action in actions:
        if "protocol" in action:
            features = {"readerFeatures": ["deletionVectors"]}
            features |= {"writerFeatures": ["deletionVectors"]}
            action["protocol"] = {"minReaderVersion": 3, "minWriterVersion": 7, **features}
    give(actions, deletionVector=vector(deleted))


def give(actions: list[Any], **fields: Any) -> None:
    """Change what a commit says of its file."""
    for action in actions:
        if "add" in action:
            action["add"].update(fields)


@pytest.mark.usefixtures("long")
def test_files_with_absolute_paths_are_read_where_the_log_locates_them(lab: Lab):
    """As shallow clones have them; other files of the same names lie below the table."""
    lab.settings["timezone"] = "UTC"
    original, folder = lab.root / "the original", lab.root / "clone"
    write_deltalake(original, rows(1, 2))
    place = next(original.glob("*.parquet"))
    write_deltalake(folder, rows(7))
    size, text = place.stat().st_size, str(place).replace(" ", "%20")
    make(lab, folder)
    for path in (f"file:{text}", f"file://{text}", text):
        edit(folder, partial(give, path=path, size=size))
        assert lab.run("ods.t", day(1)).counts.source == 2
        assert numbers(lab) == [1, 2]
        lab.table("ods.u", {"sql": "SELECT 1 AS n", "target": {"type": "delta", "path": "clone"}})
        shown = look(lab.project, lambda: lab.engine, "ods.u", limit=9)
        assert shown.column("n").to_pylist() == [1, 2]
    edit(folder, partial(delete, deleted=[0]))
    assert lab.run("ods.t", day(1)).counts.source == 1
    assert numbers(lab) == [2]
    assert look(lab.project, lambda: lab.engine, "ods.u", limit=9).column("n").to_pylist() == [2]


def edit(folder: Path, change: Any) -> None:
    """Change the actions of the first commit."""
    path = folder / f"_delta_log/{0:020}.json"
    actions = [json.loads(line) for line in path.read_text().splitlines()]
    change(actions)
    path.write_text("".join(json.dumps(action) + "\n" for action in actions))


def test_a_column_whose_type_has_grown_is_read_from_files_of_before(lab: Lab):
    folder = lab.root / "grown"
    write_deltalake(folder, pa.table({"n": pa.array([7], pa.int32())}))

    def grow(actions: Iterable[Any]) -> None:
        for action in actions:
            if "protocol" in action:
                features = {"readerFeatures": ["typeWidening"], "writerFeatures": ["typeWidening"]}
                action["protocol"] = {"minReaderVersion": 3, "minWriterVersion": 7, **features}
            if "metaData" in action:
                text = action["metaData"]["schemaString"]
                action["metaData"]["schemaString"] = text.replace("integer", "long")

    edit(folder, grow)
    make(lab, folder)
    lab.run("ods.t", day(1))
    assert lab.engine.read("ods.t").dtypes == [("n", "bigint")]
    assert numbers(lab) == [7]


NAMED = {"columnMapping": "column mapping by color", "catalogManaged": "(?i)catalog.managed"}


@pytest.mark.parametrize("feature", ["columnMapping", "catalogManaged", "somethingNew"])
def test_what_of_the_protocol_cannot_be_read_is_named(lab: Lab, shared: Path, feature: str):
    def require(actions: Iterable[Any]) -> None:
        for action in actions:
            if "protocol" in action:
                listed = {"readerFeatures": [feature], "writerFeatures": [feature]}
                action["protocol"] = {"minReaderVersion": 3, "minWriterVersion": 7, **listed}
            if "metaData" in action and feature == "columnMapping":
                action["metaData"]["configuration"]["delta.columnMapping.mode"] = "color"
                schema = json.loads(action["metaData"]["schemaString"])
                for number, field in enumerate(schema["fields"], 1):
                    mapped = {"delta.columnMapping.id": number}
                    mapped["delta.columnMapping.physicalName"] = f"col-{number}"
                    field["metadata"] = mapped
                action["metaData"]["schemaString"] = json.dumps(schema)

    edit(shared, require)
    make(lab, shared)
    with pytest.raises(TerminalStepError, match=NAMED.get(feature, feature)):
        lab.run("ods.t", day(1))


def test_a_table_of_ours_is_a_source_like_any_other(lab: Lab):
    lab.table("ods.first", {"sql": "SELECT 1L AS n", "target": {"type": "delta", "path": "first"}})
    lab.run("ods.first", day(1))
    make(lab, lab.root / "first")
    lab.run("ods.t", day(1))
    assert numbers(lab) == [1]
