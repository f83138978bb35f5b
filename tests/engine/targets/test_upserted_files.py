"""Upserts: by key, once each, and never an older window over a newer one."""

from typing import Any

import pytest

from logdriven_dagster.engine.targets import upserted_files
from logdriven_dagster.engine.targets.upserted_files import KeyRange
from logdriven_dagster.errors import TerminalStepError
from logdriven_dagster.model.runs import Merged
from tests.builders import day
from tests.engine.laboratory import Lab, held
from tests.needs import rarely

UPSERTS = {
    "iceberg": {"type": "iceberg", "mode": "upsert", "key": ["id"]},
    "delta": {"type": "delta", "mode": "upsert", "key": ["id"]},
    "sqlite": {"type": "jdbc", "connection": "lite", "table": "t", "mode": "upsert", "key": ["id"]},
}


@pytest.fixture(params=UPSERTS)
def target(request: pytest.FixtureRequest) -> Any:
    return UPSERTS[request.param]


def upsert(lab: Lab, n: int, values: str, target: Any) -> Merged | None:
    """What the window's publication says that it did."""
    lab.table("ods.t", {"sql": f"SELECT * FROM VALUES {values} AS t(id, v)", "target": target})
    return lab.run("ods.t", day(n)).published[0].merged


@pytest.mark.sampled
@pytest.mark.connect
def test_new_keys_are_added_and_known_ones_replaced(lab: Lab, target: Any):
    upsert(lab, 1, "(1, 'a'), (2, 'a')", target)
    upsert(lab, 2, "(2, 'b'), (3, 'b')", target)
    assert lab.rows("ods.t") == [(1, "a"), (2, "b"), (3, "b")]
    assert lab.rows("ods.t", day(1)) == [(1, "a")]


@pytest.mark.sampled
def test_an_older_window_never_replaces_a_newer_ones_row(lab: Lab, target: Any):
    upsert(lab, 3, "(1, 'new')", target)
    upsert(lab, 2, "(1, 'old'), (2, 'old')", target)
    assert lab.rows("ods.t") == [(1, "new"), (2, "old")]


@pytest.mark.sampled
def test_the_same_window_replaces_its_own_rows(lab: Lab, target: Any):
    for value in "ab":
        upsert(lab, 1, f"(1, '{value}')", target)
    assert lab.rows("ods.t") == [(1, "b")]


@pytest.mark.sampled
def test_an_empty_window_changes_nothing(lab: Lab, target: Any):
    upsert(lab, 1, "(1, 'a')", target)
    lab.table("ods.t", {"sql": "SELECT 1 AS id, 'b' AS v WHERE 1 = 0", "target": target})
    lab.run("ods.t", day(2))
    assert lab.rows("ods.t") == [(1, "a")]


@pytest.mark.sampled
@pytest.mark.parametrize(
    ("values", "text"),
    [
        ("(1, 'a'), (1, 'b')", "2 rows have one key: id=1"),
        ("(1, 'a'), (CAST(NULL AS INT), 'b')", "a key must not be null: id=None"),
    ],
)
def test_keys_that_do_not_identify_a_row_are_refused(lab: Lab, target: Any, values: str, text: str):
    with pytest.raises(TerminalStepError, match=text):
        upsert(lab, 1, values, target)


@pytest.mark.sampled
def test_an_upsert_counts_its_inserts_and_updates(lab: Lab, target: Any):
    assert upsert(lab, 1, "(1, 'a'), (2, 'a')", target) == Merged(inserted=2, updated=0)
    assert upsert(lab, 3, "(2, 'c'), (3, 'c')", target) == Merged(inserted=1, updated=1)
    assert upsert(lab, 3, "(2, 'd')", target) == Merged(inserted=0, updated=1)
    older = upsert(lab, 2, "(1, 'b'), (2, 'b'), (4, 'b')", target)
    assert older == Merged(inserted=1, updated=1)  # a newer window wrote 2


@pytest.mark.sampled
def test_a_published_upsert_that_is_published_again_reports_the_same_counts(lab: Lab, target: Any):
    upsert(lab, 1, "(1, 'a')", target)
    lab.table("ods.t", {"sql": "SELECT explode(array(1, 2)) AS id, 'b' AS v", "target": target})
    with lab.session("ods.t", day(2)) as session:
        session.stage(lab.project.table("ods.t").steps[0])
        keeper, staged = session._staged["step_1"]
        told = [keeper.publish(staged, held)[0].merged for _ in range(2)]
    assert told == [Merged(inserted=1, updated=1)] * 2


@pytest.mark.sampled
def test_columns_that_the_result_lacks_keep_their_values(lab: Lab, target: Any):
    upsert(lab, 1, "(1, 'a'), (2, 'a')", target)
    step = {"sql": "SELECT explode(array(2, 3)) AS id, 9 AS n", "target": target}
    lab.table("ods.t", step, missing_columns="allow")
    lab.run("ods.t", day(2))
    assert lab.rows("ods.t") == [(1, "a", None), (2, "a", 9), (3, None, 9)]


def test_existing_rows_in_an_iceberg_table_are_older_than_any_window(lab: Lab):
    pyarrow = pytest.importorskip("pyarrow")
    catalog = lab.engine._open_catalog()
    others = pyarrow.table({"id": [1, 2, 2], "v": ["old", "old", "twice"]})
    catalog.create_namespace("ods")
    catalog.create_table("ods.t", others.schema).append(others)
    done = upsert(lab, 1, "(2, 'new'), (3, 'new')", UPSERTS["iceberg"])
    assert done == Merged(inserted=1, updated=1)
    assert lab.rows("ods.t") == [(1, "old"), (2, "new"), (3, "new")]


@pytest.mark.usefixtures("long")
def test_only_files_with_a_matching_key_are_rewritten(lab: Lab):
    target = UPSERTS["iceberg"]
    for n in (1, 2, 3):
        upsert(lab, n, f"({n}, 'a')", target)
    before = files(lab)
    upsert(lab, 4, "(2, 'b'), (9, 'b')", target)
    assert len(before & files(lab)) == 2
    assert lab.rows("ods.t") == [(1, "a"), (2, "b"), (3, "a"), (9, "b")]


@pytest.mark.usefixtures("long")
def test_manifests_of_upserts_do_not_accumulate(lab: Lab):
    """Overwrites of PyIceberg would keep a manifest of the removed files of each."""
    for n in range(1, 8):
        upsert(lab, n, "(1, 'a')", UPSERTS["iceberg"])
    assert count_manifests(lab) == 2  # of the file, and of the last removed one
    for n in range(8, 34):
        upsert(lab, n, f"({n}, 'a'), ({n - 1}, 'b')", UPSERTS["iceberg"])
    assert count_manifests(lab) <= 20
    assert lab.rows("ods.t") == sorted(
        [(1, "a"), *((n, "b") for n in range(7, 33)), (33, "a")], key=repr
    )


def count_manifests(lab: Lab) -> int:
    table = lab.engine._catalog.load_table("ods.t")
    return len(table.current_snapshot().manifests(table.io))


@pytest.mark.usefixtures("long")
def test_several_columns_make_a_key(lab: Lab):
    target = {**UPSERTS["iceberg"], "key": ["id", "v"]}
    upsert(lab, 1, "(1, 'a'), (1, 'b')", target)
    upsert(lab, 2, "(1, 'b'), (1, 'c')", target)
    assert lab.rows("ods.t") == [(1, "a"), (1, "b"), (1, "c")]


def files(lab: Lab) -> set[str]:
    table = lab.engine._catalog.load_table("ods.t")
    return {task.file.file_path for task in table.scan().plan_files()}


@pytest.mark.parametrize("kind", ["iceberg", *rarely("delta")])
def test_keys_compared_by_arrow_match_as_those_compared_by_spark(
    lab: Lab, monkeypatch: pytest.MonkeyPatch, kind: str
):
    target = {"type": kind, "mode": "upsert", "key": ["ID", "the.day", "amount"]}
    windows = {
        1: "(1, DATE'2022-01-01', 1.50, 'a'), (2, DATE'2022-01-01', 1.50, 'a')",
        3: "(2, DATE'2022-01-01', 1.50, 'c'), (2, DATE'2022-01-02', 1.50, 'c')",
        2: "(2, DATE'2022-01-01', 1.5, 'b'), (1, DATE'2022-01-01', 1.5, 'b'), (3, DATE'2021-01-01', 2.5, 'b')",  # noqa: E501
        4: "(7, DATE'2022-01-01', 1.50, 'd')",
    }
    done = []
    for name, most in (("arrow", 100), ("spark", -1)):
        monkeypatch.setattr(upserted_files, "FEW_ROWS", most)
        merged = []
        for n, values in windows.items():
            sql = f"SELECT * FROM VALUES {values} AS t(id, `the.day`, amount, v)"
            lab.table(f"ods.{name}", {"sql": sql, "target": target})
            merged.append(lab.run(f"ods.{name}", day(n)).published[0].merged)
        done.append((merged, lab.rows(f"ods.{name}")))
    assert done[0] == done[1]
    assert done[0][0][2] == Merged(inserted=1, updated=1)


@pytest.mark.parametrize("kind", ["iceberg", *rarely("delta")])
def test_few_rows_are_merged_into_small_files_without_another_query(lab: Lab, kind: str):
    upsert(lab, 1, "(1, 'a'), (2, 'a')", UPSERTS[kind])
    before = count_queries(lab)
    assert upsert(lab, 2, "(2, 'b'), (3, 'b')", UPSERTS[kind]) == Merged(inserted=1, updated=1)
    assert count_queries(lab) == before + 1  # the write
    assert lab.rows("ods.t") == [(1, "a"), (2, "b"), (3, "b")]


def count_queries(lab: Lab) -> int:
    """The number of jobs that Spark has started."""
    return int(lab.spark.sparkContext._jsc.sc().dagScheduler().nextJobId())


@pytest.mark.parametrize("kind", ["iceberg", *rarely("delta")])
def test_only_files_whose_keys_lie_around_a_new_one_are_read(
    lab: Lab, monkeypatch: pytest.MonkeyPatch, kind: str
):
    """Keys that lie far apart do not have all files between them read."""
    read = []
    before = upserted_files.match_keys

    def watch(new: Any, old: Any, end: Any) -> Any:
        return before(new, ((read.append(file), (file, batch))[1] for file, batch in old), end)

    for n, first in enumerate((0, 10, 20, 30), 1):
        values = f"({first}, 'a'), ({first + 5}, 'a')"
        upsert(lab, n, values, UPSERTS[kind])
    monkeypatch.setattr(upserted_files, "match_keys", watch)
    done = upsert(lab, 5, "(3, 'b'), (8, 'b'), (35, 'b')", UPSERTS[kind])
    assert done == Merged(inserted=2, updated=1)
    assert len(read) == 2  # the files of 0 to 5 and of 30 to 35
    assert (35, "b") in lab.rows("ods.t")


@pytest.mark.parametrize("values", [(1, 5, 9), None])
def test_a_range_of_keys_may_meet_the_bounds_of_a_file(values: Any):
    keys = KeyRange(1, 9, values)
    assert keys.may_meet(5, 5)
    assert keys.may_meet(None, None)
    assert keys.may_meet(None, 1)
    assert keys.may_meet(9, None)
    assert not keys.may_meet(10, None)
    assert not keys.may_meet(None, 0)
    assert keys.may_meet(2, 4) is (values is None)
