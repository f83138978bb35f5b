"""Versions of rows (`mode: history`): each with its time, and a function of the changes alone."""

from datetime import datetime, timezone
from typing import Any

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from logdriven_dagster.engine.targets import staged_files
from logdriven_dagster.engine.targets.versions import _Fold
from logdriven_dagster.errors import TerminalStepError
from logdriven_dagster.model.runs import Merged
from tests.builders import day
from tests.engine.laboratory import Lab

HISTORIES = {
    "iceberg": {"type": "iceberg", "mode": "history", "key": ["id"]},
    "delta": {"type": "delta", "mode": "history", "key": ["id"]},
}


@pytest.fixture(params=HISTORIES)
def target(request: pytest.FixtureRequest) -> Any:
    return HISTORIES[request.param]


def load(lab: Lab, n: int, values: str, target: Any, columns: str = "id, v", **fields: Any) -> Any:
    """Load a window of changes; the counts of its publication."""
    sql = f"SELECT * FROM VALUES {values} AS t({columns})"
    if not values:
        sql = "SELECT 1 AS id, 'a' AS v WHERE 1 = 0"
    lab.table("dim.t", {"sql": sql, "target": target}, **fields)
    return lab.run("dim.t", day(n)).published[0].merged


def versions(lab: Lab) -> list[tuple[Any, ...]]:
    """Key, value and the days of the month between which each version was valid."""
    return [
        tuple(_day(each) if isinstance(each, datetime) else each for each in row)
        for row in lab.rows("dim.t")
    ]


def _day(time: datetime) -> Any:
    at = time if time.tzinfo is None else time.astimezone(timezone.utc)
    return at.day if at.hour == 0 else at.day + at.hour / 24


@pytest.mark.sampled
def test_a_change_closes_a_version_and_begins_the_next_one(lab: Lab, target: Any):
    assert load(lab, 1, "(1, 'a'), (2, 'a')", target) == Merged(inserted=2, updated=0)
    assert load(lab, 2, "(1, 'a'), (2, 'b')", target) == Merged(inserted=1, updated=1)
    assert load(lab, 3, "", target) == Merged(inserted=0, updated=0)
    assert load(lab, 4, "(3, 'c')", target) == Merged(inserted=1, updated=0)
    assert versions(lab) == [
        (1, "a", 1, None),
        (2, "a", 1, 2),
        (2, "b", 2, None),
        (3, "c", 4, None),
    ]


@pytest.mark.sampled
def test_a_window_that_runs_again_takes_the_table_back_to_its_start(lab: Lab, target: Any):
    load(lab, 1, "(1, 'a'), (2, 'a')", target)
    load(lab, 2, "(1, 'b')", target)
    load(lab, 3, "(1, 'c'), (2, 'c'), (3, 'c')", target)
    assert load(lab, 2, "(1, 'a')", target) == Merged(inserted=0, updated=0)
    assert versions(lab) == [(1, "a", 1, None), (2, "a", 1, None)]
    load(lab, 3, "(1, 'c'), (2, 'c'), (3, 'c')", target)
    assert versions(lab) == [
        *((1, "a", 1, 3), (1, "c", 3, None)),
        *((2, "a", 1, 3), (2, "c", 3, None), (3, "c", 3, None)),
    ]


@pytest.mark.connect
@pytest.mark.sampled
def test_changes_of_a_window_follow_their_sequence(lab: Lab, target: Any):
    target = {**target, "sequence_by": "at", "valid_from": "since", "deleted_when": "v = 'x'"}
    columns = "id, v, at"
    at = "TIMESTAMP '2022-01-0{} {}:00:00Z'".format
    load(lab, 1, f"(1, 'a', {at(1, '06')}), (1, 'b', {at(1, 12)})", target, columns)
    day_2 = (
        f"(1, 'b', {at(2, '06')}), (1, 'x', {at(2, 12)}), (1, 'x', {at(2, 15)}),"
        f"(1, 'b', {at(2, 18)}), (1, 'b', {at(2, 18)}), (2, 'x', {at(2, 18)})"
    )
    counts = load(lab, 2, day_2, target, columns)
    assert counts == Merged(inserted=1, updated=1)
    assert versions(lab) == [
        (1, "a", 1.25, 1.25, 1.5),
        (1, "b", 1.5, 1.5, 2.5),
        (1, "b", 2.75, 2.75, None),
    ]


@pytest.mark.sampled
def test_files_of_versions_that_ended_before_a_window_are_not_read(
    lab: Lab, target: Any, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(staged_files, "_SMALL_BYTES", -1)  # as in a table of many files
    for n, value in enumerate("abcd", 1):
        load(lab, n, f"(1, '{value}')", target)
    read: list[int] = []
    before = _Fold._match

    def watch(fold: Any, files: Any) -> Any:
        read.append(len(files))
        return before(fold, files)

    monkeypatch.setattr(_Fold, "_match", watch)
    load(lab, 5, "(1, 'e')", target)
    load(lab, 2, "(1, 'f')", target)
    assert read == [1, 4]  # a rerun opens what the later windows have closed
    assert versions(lab) == [(1, "a", 1, 2), (1, "f", 2, None)]


@pytest.mark.parametrize(
    ("values", "problem"),
    [
        ("(1, 'a', TIMESTAMP '2022-01-02 00:00:00Z')", "outside the window"),
        ("(1, 'a', CAST(NULL AS TIMESTAMP))", "at = NULL, outside the window"),
        ("(CAST(NULL AS INT), 'a', TIMESTAMP '2022-01-01 00:00:00Z')", "key must not be null"),
        (
            "(1, 'a', TIMESTAMP '2022-01-01 00:00:00Z'),(1, 'b', TIMESTAMP '2022-01-01 00:00:00Z')",
            "two different rows have one key and one at: id=1",
        ),
        ("(1, 'a', '2022-01-01')", "sequence_by at is string; it must be TIMESTAMP or DATE"),
    ],
)
def test_changes_without_an_order_within_their_window_are_refused(
    lab: Lab, values: str, problem: str
):
    target = {**HISTORIES["iceberg"], "sequence_by": "at"}
    with pytest.raises(TerminalStepError, match=problem):
        load(lab, 1, values, target, "id, v, at")


@pytest.mark.sampled
def test_a_key_that_a_snapshot_lacks_is_closed(lab: Lab, target: Any):
    target = {**target, "snapshot": True}
    load(lab, 1, "(1, 'a'), (2, 'a')", target)
    assert load(lab, 2, "(1, 'a')", target) == Merged(inserted=0, updated=1)
    load(lab, 3, "(1, 'a'), (2, 'a')", target)
    assert load(lab, 4, "", target) == Merged(inserted=0, updated=2)
    assert versions(lab) == [(1, "a", 1, 4), (2, "a", 1, 2), (2, "a", 3, 4)]


def test_values_are_compared_exactly_and_null_equals_null(lab: Lab):
    rows = (
        "(1, CAST('NaN' AS DOUBLE)), (2, NULL), (3, 0.1D)",
        "(1, CAST('NaN' AS DOUBLE)), (2, NULL), (3, 0.1000000001D)",
        "(1, CAST(NULL AS DOUBLE)), (2, 0D), (3, 0.1000000001D)",
    )
    for n, values in enumerate(rows, 1):
        load(lab, n, values, HISTORIES["iceberg"])
    spans = [(row[0], *row[2:]) for row in versions(lab)]
    assert sorted(spans, key=str) == [
        *((1, 1, 3), (1, 3, None), (2, 1, 3), (2, 3, None), (3, 1, 2), (3, 2, None))
    ]


def test_only_tracked_columns_begin_a_version(lab: Lab):
    target = {**HISTORIES["iceberg"], "track": ["v"]}
    load(lab, 1, "(1, 'a', map(1, 2))", target, "id, v, other")
    load(lab, 2, "(1, 'a', map(1, 3))", target, "id, v, other")
    assert versions(lab) == [(1, "a", {1: 2}, 1, None)]


def test_every_change_begins_a_version_if_its_time_is_tracked(lab: Lab):
    target = {**HISTORIES["iceberg"], "sequence_by": "at", "track": ["at"]}
    at = "TIMESTAMP '2022-01-0{} {}:00:00Z'".format
    load(lab, 1, f"(1, 'a', {at(1, '06')}), (1, 'a', {at(1, 12)})", target, "id, v, at")
    load(lab, 2, f"(1, 'a', {at(2, 12)}), (1, 'a', {at(2, 12)})", target, "id, v, at")
    assert sorted(versions(lab), key=lambda row: row[2]) == [
        (1, "a", 1.25, 1.25, 1.5),
        (1, "a", 1.5, 1.5, 2.5),
        (1, "a", 2.5, 2.5, None),
    ]


def test_a_map_cannot_be_tracked(lab: Lab):
    with pytest.raises(TerminalStepError, match="column v is a map, and maps cannot be compared"):
        load(lab, 1, "(1, map(1, 2))", HISTORIES["iceberg"])


def test_nested_values_are_tracked(lab: Lab):
    for n, value in enumerate(("array(1, NULL)", "array(1, NULL)", "array(1, 2)"), 1):
        load(lab, n, f"(1, struct({value} AS a))", HISTORIES["iceberg"])
    assert sorted(row[2:] for row in versions(lab)) == [(1, 3), (3, None)]


@pytest.mark.parametrize(
    ("condition", "problem"),
    [("op = 'D'", "dim.t: deleted_when: unknown column op"), ("v", "deleted_when is string")],
)
def test_deleted_when_must_be_a_condition_on_the_result(lab: Lab, condition: str, problem: str):
    with pytest.raises(TerminalStepError, match=problem):
        load(lab, 1, "(1, 'a')", {**HISTORIES["iceberg"], "deleted_when": condition})


def test_a_key_of_fewer_columns_than_that_of_the_table_closes_no_other_version(lab: Lab):
    both = {**HISTORIES["iceberg"], "key": ["id", "part"]}
    load(lab, 1, "(1, 1, 'a'), (1, 2, 'a')", both, "id, part, v")
    with pytest.raises(TerminalStepError, match=r"two current versions have one key \(id\)"):
        load(lab, 2, "(1, 1, 'b')", HISTORIES["iceberg"], "id, part, v")
    assert versions(lab) == [(1, 1, "a", 1, None), (1, 2, "a", 1, None)]


def test_a_column_with_a_name_of_our_own_is_refused_and_others_are_kept(lab: Lab):
    load(lab, 1, "(1, 'a', 1)", HISTORIES["iceberg"], "id, _same, _seen")
    load(lab, 2, "(1, 'b', 2)", HISTORIES["iceberg"], "id, _same, _seen")
    assert versions(lab) == [(1, "a", 1, 1, 2), (1, "b", 2, 2, None)]
    with pytest.raises(TerminalStepError, match="rename the column in the step's SQL"):
        load(lab, 3, "(1, 'a')", HISTORIES["iceberg"], "id, _logdriven_NEW")


def test_the_end_of_a_version_of_another_system_is_not_lost(lab: Lab):
    write_versions(lab, (1, "a", day(-30).start, day(4).start))
    with pytest.raises(TerminalStepError, match="1 rows that no window wrote"):
        load(lab, 1, "(3, 'd')", HISTORIES["delta"])


@pytest.mark.parametrize("kind", HISTORIES)
def test_a_window_closes_a_version_of_another_system_again_when_it_reruns(lab: Lab, kind: str):
    write_versions(lab, (3, "c", day(-30).start, None), kind=kind)
    for _ in range(2):
        load(lab, 2, "(3, 'd')", HISTORIES[kind])
        assert [row[1:] for row in versions(lab)] == [("c", 1, 2), ("d", 2, None)]


def write_versions(
    lab: Lab, *rows: tuple[int, str, datetime, datetime | None], kind: str = "delta"
) -> None:
    """Write versions as another system does, without `_window_start`."""
    time = pa.timestamp("us", "UTC")
    schema = pa.schema({"id": pa.int32(), "v": pa.string(), "valid_from": time, "valid_to": time})
    names = schema.names
    table = pa.Table.from_pylist([dict(zip(names, row, strict=True)) for row in rows], schema)
    if kind == "iceberg":
        lab.engine._catalog.create_namespace_if_not_exists("dim")
        lab.engine._catalog.create_table("dim.t", table.schema).append(table)
    else:
        write_deltalake(str(lab.warehouse / "dim" / "t"), table)
