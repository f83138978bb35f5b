"""Delta tables whose files have other names of columns, or only their ids, as sources and targets.

No writer of such tables is installed here, so PyArrow writes the files and a test writes the log.
What windows write is read by delta-rs. Delta's own golden tables were read in the same way, and had
the rows that Spark expects of them.
"""

from copy import deepcopy
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, QueryBuilder
from pyarrow import parquet

from logdriven_dagster.errors import TerminalStepError
from tests.builders import day
from tests.engine.laboratory import Lab
from tests.plugins.delta.foreign_tables import make, vector
from tests.plugins.delta.mapped_tables import (
    COLUMNS,
    QUERY,
    Table,
    arrow_field,
    field,
    hour,
    load,
)

MODES = ("name", "id")


@pytest.fixture(params=MODES)
def table(request: pytest.FixtureRequest, lab: Lab) -> Table:
    lab.settings["timezone"] = "UTC"
    return Table(lab.root / "mapped", request.param, COLUMNS)


def loaded(lab: Lab) -> list[tuple[Any, ...]]:
    def plain(value: Any) -> Any:
        if hasattr(value, "asDict"):
            return {name: plain(part) for name, part in value.asDict().items()}
        if isinstance(value, dict):
            return {key: plain(part) for key, part in value.items()}
        return [plain(part) for part in value] if isinstance(value, list) else value

    found = lab.engine.read("ods.t").select("b", "a", "place", "s", "l", "m").collect()
    return sorted((tuple(map(plain, row)) for row in found), key=repr)


def expected(number: int, place: str | None) -> list[tuple[Any, ...]]:
    inner = {"y": number, "x": f"text {number}"}
    whole = (number, -number, place, inner, [inner], {"k": inner})
    return [whole, (None, number, place, None, None, None)]


def test_columns_are_found_by_their_stored_names_or_ids(lab: Lab, table: Table):
    table.add(1, hour(1), "x=1")
    table.add(2, hour(1), None)
    make(lab, table.folder)
    counts = lab.run("ods.t", day(1)).counts
    assert (counts.source, counts.target) == (4, 4)
    assert loaded(lab) == sorted([*expected(1, "x=1"), *expected(2, None)], key=repr)


def test_a_window_opens_files_by_the_statistics_of_stored_names(lab: Lab, table: Table):
    for n in (1, 2, 3):
        path = table.add(n, hour(n), "x")
        if n != 2:
            path.unlink()
    make(lab, table.folder, window_column="AT")
    assert lab.run("ods.t", day(2)).counts.target == 2
    assert loaded(lab) == sorted(expected(2, "x"), key=repr)


def test_a_column_of_a_dropped_name_has_only_its_own_values(lab: Lab, table: Table):
    table.add(1, hour(1), "x")
    columns = deepcopy(COLUMNS)
    columns[0] = field(20, "b", "col-20", "long")  # `b`, stored as `a`, was dropped and added again
    columns[4]["type"]["fields"][0] = field(21, "y", "col-21", "integer")
    table.commit(table.described(columns))
    make(lab, table.folder)
    lab.run("ods.t", day(1))
    inner = {"y": None, "x": "text 1"}
    assert [(b, s) for b, _, _, s, _, _ in loaded(lab)] == [(None, inner), (None, None)]


def test_deleted_rows_are_left_out(lab: Lab, table: Table):
    table.add(1, hour(1), "x", deletionVector=vector([1]))
    make(lab, table.folder)
    assert lab.run("ods.t", day(1)).counts.source == 1
    assert loaded(lab) == expected(1, "x")[:1]


@pytest.mark.parametrize("number", [0, 4])
def test_a_column_without_its_mapping_is_refused(lab: Lab, table: Table, number: int):
    table.add(1, hour(1), "x")
    columns = deepcopy(COLUMNS)
    broken = columns[4]["type"]["fields"][0] if number else columns[0]
    broken["metadata"] = {}
    table.commit(table.described(columns))
    make(lab, table.folder)
    with pytest.raises(TerminalStepError, match=r"mapped cannot be read: .*(?i:mapping)"):
        lab.run("ods.t", day(1))


@pytest.fixture(params=MODES)
def target(request: pytest.FixtureRequest, lab: Lab) -> Table:
    """The table of a target, with a file of the first day."""
    lab.settings["timezone"] = "UTC"
    columns = [each for each in COLUMNS if each["name"] != "place"]
    table = Table(lab.warehouse / "ods/t", request.param, columns, partition="")
    table.add(1, hour(1))
    return table


def as_delta_rs_reads(table: Table) -> list[tuple[Any, ...]]:
    """All rows but their times, by delta-rs' query engine, which follows the mapping."""
    engine = QueryBuilder().register("t", DeltaTable(table.folder))
    found = pa.table(engine.execute("SELECT b, a, s, l, m FROM t").read_all()).to_pylist()
    rows = [{**row, "m": row["m"] and dict(row["m"])} for row in found]
    return sorted((tuple(row.values()) for row in rows), key=repr)


def written(number: int) -> tuple[Any, ...]:
    inner = {"y": number, "x": f"text {number}"}
    return (number, -number, inner, [inner], {"k": inner})


def test_a_window_writes_stored_names_and_ids(lab: Lab, target: Table):
    load(lab, 7)
    lab.run("ods.t", day(2))
    first = [written(1), (None, 1, None, None, None)]
    assert as_delta_rs_reads(target) == sorted([*first, written(7)], key=repr)
    load(lab, 8)
    for n in (1, 2, 2):
        lab.run("ods.t", day(n))
    assert as_delta_rs_reads(target) == [written(8), written(8)]
    assert [row[:2] for row in lab.rows("ods.t")] == [(8, -8), (8, -8)]
    named = {file.rsplit("/", 1)[1] for file in DeltaTable(target.folder).file_uris()}
    (first_file, _) = (path for path in target.folder.rglob("*.parquet") if path.name in named)
    found = parquet.read_schema(first_file)
    wanted = pa.schema([arrow_field(each) for each in COLUMNS if each["name"] != "place"])
    assert found.names == wanted.names
    assert [each.metadata[b"PARQUET:field_id"] for each in found] == [
        each.metadata[b"PARQUET:field_id"] for each in wanted
    ]
    assert [each.name for each in found.field("col-5").type] == ["x", "col-7"]
    actions = pa.table(DeltaTable(target.folder).get_add_actions(flatten=True)).to_pylist()
    assert [(each["min.a"], each["max.b"]) for each in actions] == [(8, -8), (8, -8)]


def test_a_file_keeps_its_rows_of_other_windows(lab: Lab, target: Table):
    target.add(3, hour(3), until=hour(4))
    load(lab, 9)
    lab.run("ods.t", day(4))
    rest = [written(1), (None, 1, None, None, None), written(3), written(9)]
    assert as_delta_rs_reads(target) == sorted(rest, key=repr)


def test_a_new_column_is_refused(lab: Lab, target: Table):
    described = {"type": "delta", "window_column": "at"}
    lab.table("ods.t", {"sql": f"{QUERY.format(1).strip()}, 1 AS more", "target": described})
    with pytest.raises(TerminalStepError, match=r"cannot be added here: more; run ALTER TABLE"):
        lab.run("ods.t", day(1))
    assert len(as_delta_rs_reads(target)) == 2
