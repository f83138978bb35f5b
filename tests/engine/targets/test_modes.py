"""Every target, every mode: what a window replaces, and that repeating it changes nothing."""

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import Any

import pytest

from logdriven_dagster.engine.spark.actions import QueryCounts, run_counted
from logdriven_dagster.engine.targets import staged_files
from logdriven_dagster.engine.targets.iceberg import catalog as iceberg_catalog
from logdriven_dagster.errors import TerminalStepError, TransientStepError
from tests.builders import day, days, hours
from tests.engine.laboratory import Lab, held
from tests.needs import rarely

TARGETS: Mapping[str, Mapping[str, Any]] = {
    "iceberg": {"type": "iceberg"},
    "delta": {"type": "delta"},
    "parquet": {"type": "parquet"},
    "orc": {"type": "orc"},
    "csv": {"type": "csv"},
    "json": {"type": "json"},
    "sqlite": {"type": "jdbc", "connection": "lite", "table": "t"},
}
QUERY = "SELECT int(day(:data_range_start)) AS day, v FROM VALUES (1), (2) AS t(v)"


@pytest.fixture(params=["iceberg", "delta", "parquet", "sqlite", *rarely("orc", "csv", "json")])
def target(request: pytest.FixtureRequest) -> Any:
    return dict(TARGETS[request.param])


@pytest.mark.parametrize(
    "kind",
    ["csv overwrite", "sqlite upsert", "iceberg upsert", "delta upsert", "parquet overwrite"],
)
def test_a_target_that_takes_one_window_at_a_time_refuses_several(lab: Lab, kind: str):
    name, _, mode = kind.partition(" ")
    target = {**TARGETS[name], "mode": mode or "overwrite_window"}
    target |= {"key": ["v"]} if mode == "upsert" else {}
    lab.table("ods.t", {"sql": QUERY, "target": target})
    runs = [lab.window_run("ods.t", day(n)) for n in (1, 2)]
    with (
        lab.engine.open_session(runs) as session,
        pytest.raises(TerminalStepError, match="one window at a time"),
    ):
        session.stage(lab.project.table("ods.t").steps[0])


@pytest.mark.sampled
@pytest.mark.parametrize("mode", ["append", "overwrite_window"])
def test_windows_add_up_and_repeating_one_leaves_the_same_rows(lab: Lab, target: Any, mode: str):
    lab.table("ods.t", {"sql": QUERY, "target": {**target, "mode": mode}})
    for window in (day(1), day(2), day(1)):
        ran = lab.run("ods.t", window)
        assert (ran.counts.target, ran.counts.success, ran.counts.failure) == (2, 2, 0)
    assert lab.rows("ods.t") == [(1, 1), (1, 2), (2, 1), (2, 2)]
    assert lab.rows("ods.t", day(2)) == [(2, 1), (2, 2)]


@pytest.mark.sampled
def test_overwrite_replaces_the_whole_table(lab: Lab, target: Any):
    lab.table("ods.t", {"sql": QUERY, "target": {**target, "mode": "overwrite"}})
    lab.run("ods.t", day(1))
    lab.run("ods.t", day(2))
    assert lab.rows("ods.t") == lab.rows("ods.t", day(1)) == [(2, 1), (2, 2)]


@pytest.mark.sampled
@pytest.mark.parametrize("kind", ["iceberg", "delta", "parquet", "sqlite"])
def test_an_older_window_never_overwrites_a_newer_ones_table(lab: Lab, kind: str):
    lab.table("ods.t", {"sql": QUERY, "target": {**TARGETS[kind], "mode": "overwrite"}})
    lab.run("ods.t", day(2))
    assert lab.run("ods.t", day(1)).published[0].rows == 0
    assert lab.rows("ods.t") == [(2, 1), (2, 2)]


@pytest.mark.sampled
def test_an_empty_window_counts_zero_and_replaces_the_rows_that_were_there(lab: Lab, target: Any):
    lab.table("ods.t", {"sql": QUERY, "target": target})
    lab.run("ods.t", day(1))
    lab.table("ods.t", {"sql": QUERY + " WHERE v > 9", "target": target})
    assert lab.run("ods.t", day(1)).counts.target == 0
    assert lab.rows("ods.t") == []


def test_a_first_window_without_rows_leaves_a_table_that_can_be_read(lab: Lab, target: Any):
    lab.table("ods.t", {"sql": QUERY + " WHERE v > 9", "target": target})
    lab.run("ods.t", day(1))
    assert lab.engine.read("ods.t").columns == ["day", "v"]
    assert lab.rows("ods.t", day(1)) == []


@pytest.mark.sampled
def test_publishing_twice_is_publishing_once(lab: Lab, target: Any):
    lab.table("ods.t", {"sql": QUERY, "target": {**target, "mode": "append"}})
    with lab.session("ods.t", day(1)) as session:
        session.stage(lab.project.table("ods.t").steps[0])
        keeper, staged = session._staged["step_1"]
        if target["type"] != "jdbc":
            assert keeper.publish(staged, held) == keeper.publish(staged, held)
        assert session.publish("step_1", held) == session.publish("step_1", held)
    assert lab.rows("ods.t") == [(1, 1), (1, 2)]


@pytest.mark.sampled
@pytest.mark.parametrize("kind", ["iceberg", "delta", "parquet", "sqlite"])
def test_a_larger_window_replaces_the_smaller_ones_inside_it(lab: Lab, kind: str):
    lab.table("ods.t", {"sql": QUERY, "target": dict(TARGETS[kind])})
    for window in (hours(0, 1), hours(1, 2), day(2)):
        lab.run("ods.t", window)
    lab.run("ods.t", day(1))
    assert lab.rows("ods.t") == [(1, 1), (1, 2), (2, 1), (2, 2)]


def test_files_refuse_a_window_inside_a_larger_published_one(lab: Lab):
    lab.table("ods.t", {"sql": QUERY, "target": {"type": "parquet"}})
    lab.run("ods.t", days(1, 3))
    with pytest.raises(TerminalStepError, match=r"\[2022-01-02, 2022-01-03\) is part of"):
        lab.run("ods.t", day(2))


@pytest.mark.sampled
@pytest.mark.parametrize("kind", ["iceberg", "delta", "sqlite"])
def test_a_window_column_of_the_users_replaces_the_technical_one(lab: Lab, kind: str):
    target = {**TARGETS[kind], "window_column": "at"}
    query = "SELECT :data_range_start AS at, {} AS v"
    for v in (1, 2):
        lab.table("ods.t", {"sql": query.format(v), "target": target})
        lab.run("ods.t", day(v))
        lab.run("ods.t", day(3))
    assert [v for _, v in lab.rows("ods.t")] == [1, 2, 2]
    assert [v for _, v in lab.rows("ods.t", day(3))] == [2]


def test_rows_outside_the_window_are_refused(lab: Lab):
    target = {"type": "iceberg", "window_column": "at"}
    lab.table("ods.t", {"sql": "SELECT timestamp'2022-01-05' AS at", "target": target})
    with pytest.raises(TerminalStepError, match="at = 2022-01-05 00:00:00 lies outside"):
        lab.run("ods.t", day(4))
    lab.run("ods.t", day(5))


PARQUET = {"type": "parquet"}
FILTERED = {"type": "csv", "path": "in.csv", "columns": "AT DATE, v INT", "window_column": "at"}


@pytest.mark.sampled
@pytest.mark.parametrize(
    "step",
    [
        {},
        {"sql": "SELECT * FROM source"},
        {"sql": "SELECT v, at AS At FROM source s WHERE v < 9"},
        {"sql_file": "kept.sql"},
        {"python": "same.py:same"},
        {"sql": "SELECT at, max(v) AS v FROM source GROUP BY at"},
    ],
)
def test_a_source_that_is_asked_for_the_window_has_all_of_it_and_nothing_else(
    lab: Lab, step: dict[str, str]
):
    lab.file("in.csv", "2022-01-01,1\n2022-01-02,2\n,3\n2022-01-03,4\n")
    lab.file("tables/kept.sql", "SELECT v, `at` FROM source")
    lab.file("tables/same.py", "def same(source): return source")
    lab.table("ods.t", {**step, "source": FILTERED, "target": {**PARQUET, "window_column": "At"}})
    for n in (1, 2, 3):
        assert lab.run("ods.t", day(n)).counts.target == 1
    read = lab.engine.read("ods.t").select("At", "v")
    assert sorted((f"{row[0]:%d}", row[1]) for row in read.collect()) == [
        ("01", 1),
        ("02", 2),
        ("03", 4),
    ]
    assert "At" in read.columns


@pytest.mark.sampled
@pytest.mark.parametrize(
    "step",
    [
        {"sql": "SELECT v, at + INTERVAL 1 DAY AS at FROM source"},
        {"sql": "SELECT at, max(v) AS v FROM source GROUP BY ROLLUP (at)"},
        {"sql": "SELECT v, d AS at FROM source LATERAL VIEW explode(array(at, at + 1)) AS d"},
        {"sql": "SELECT t.at, v FROM source RIGHT JOIN ${others} AS t (at) ON v = 0"},
        {"sql_file": "moved.sql"},
        {"python": "later.py:later"},
    ],
)
def test_what_a_step_moves_out_of_the_window_is_refused(lab: Lab, step: dict[str, str]):
    lab.file("in.csv", "2022-01-01,1\n2022-01-02,2\n")
    lab.file("tables/moved.sql", "SELECT v, at - INTERVAL 1 DAY AS at FROM source")
    lab.file("tables/later.py", "def later(source): return source.selectExpr('v', 'at + 1 AS at')")
    step = {**step, "source": FILTERED, "target": {**PARQUET, "window_column": "at"}}
    lab.table("ods.t", step, variables={"others": "VALUES (DATE'2021-12-31')"})
    with pytest.raises(TerminalStepError, match="lies outside the window"):
        lab.run("ods.t", day(1))


def cut_to_days(lab: Lab, columns: str, row: str) -> None:
    """A table whose window column is the day of its source's."""
    lab.file("in.csv", row)
    step = {
        "source": {**FILTERED, "columns": columns},
        "sql": "SELECT v, CAST(at AS DATE) AS day FROM source",
        "target": {**PARQUET, "window_column": "day"},
    }
    lab.table("ods.t", step)


def test_a_text_may_hold_the_day_of_another_zone(lab: Lab):
    cut_to_days(lab, "at STRING, v INT", "2022-01-01T23:30:00-05:00,1\n")
    with pytest.raises(TerminalStepError, match="day = 2022-01-01 lies outside the window"):
        lab.run("ods.t", day(2))


@pytest.mark.usefixtures("long")
def test_a_day_lies_outside_of_hours_that_are_no_window_of_the_table(lab: Lab):
    cut_to_days(lab, "at TIMESTAMP, v INT", "2022-01-01 05:30:00,1\n")
    with pytest.raises(TerminalStepError, match="day = 2022-01-01 lies outside the window"):
        lab.run("ods.t", hours(5, 6))
    assert lab.run("ods.t", day(1)).counts.target == 1


def test_a_day_within_a_window_of_days_keeps_the_other_days(lab: Lab):
    target = {"type": "iceberg", "window_column": "d"}
    query = "SELECT explode(sequence({})) AS d, {} AS v"
    lab.table(
        "ods.t", {"sql": query.format("date'2022-01-01', date'2022-01-04'", 1), "target": target}
    )
    lab.run("ods.t", days(1, 5))
    lab.table(
        "ods.t", {"sql": query.format("date'2022-01-02', date'2022-01-02'", 2), "target": target}
    )
    lab.run("ods.t", day(2))
    assert [(f"{d:%d}", v) for d, v in lab.rows("ods.t")] == [
        ("01", 1),
        ("02", 2),
        ("03", 1),
        ("04", 1),
    ]


@pytest.mark.sampled
@pytest.mark.parametrize("kind", ["iceberg", "delta", "parquet", "sqlite"])
def test_windows_that_publish_side_by_side_all_arrive(lab: Lab, kind: str):
    lab.table("ods.t", {"sql": QUERY, "target": dict(TARGETS[kind])}, ordered=False)
    with ExitStack() as stack:
        sessions = [stack.enter_context(lab.session("ods.t", day(n))) for n in range(1, 5)]
        for session in sessions:
            session.stage(lab.project.table("ods.t").steps[0])
        with ThreadPoolExecutor() as pool:
            list(pool.map(lambda session: session.publish("step_1", held), sessions))
    assert [row[0] for row in lab.rows("ods.t")] == [1, 1, 2, 2, 3, 3, 4, 4]


def test_an_iceberg_commit_carries_the_attempt_and_its_window(lab: Lab):
    lab.table("ods.t", {"sql": QUERY, "target": {"type": "iceberg"}})
    ran = lab.run("ods.t", day(1), job_id=42)
    snapshot = lab.engine._catalog.load_table("ods.t").current_snapshot()
    carried = snapshot.summary.additional_properties
    assert str(snapshot.snapshot_id) == ran.published[0].snapshot_id
    assert {name: carried[name] for name in ("job_id", "table", "step", "data_range_start")} == {
        "job_id": "42",
        "table": "ods.t",
        "step": "step_1",
        "data_range_start": "20220101000000",
    }


@pytest.mark.usefixtures("long")
def test_the_history_of_an_iceberg_table_stays_short(lab: Lab, monkeypatch):
    monkeypatch.setattr(iceberg_catalog, "_MOST_SNAPSHOTS", 4)
    monkeypatch.setattr(iceberg_catalog, "_KEPT_SNAPSHOTS", 2)
    lab.table("ods.t", {"sql": QUERY, "target": {"type": "iceberg"}})
    for n in range(1, 9):
        lab.run("ods.t", day(n))
    assert len(lab.engine._catalog.load_table("ods.t").snapshots()) <= 5
    assert len(lab.rows("ods.t")) == 16


@pytest.mark.usefixtures("long")
def test_the_history_of_a_table_stays_short_that_was_made_before_we_signed_them(
    lab: Lab, monkeypatch
):
    monkeypatch.setattr(iceberg_catalog, "_MOST_SNAPSHOTS", 4)
    monkeypatch.setattr(iceberg_catalog, "_KEPT_SNAPSHOTS", 2)
    monkeypatch.setattr(iceberg_catalog, "_OURS", {})
    lab.table("ods.t", {"sql": QUERY, "target": {"type": "iceberg"}})
    lab.run("ods.t", day(1))
    monkeypatch.undo()
    monkeypatch.setattr(iceberg_catalog, "_MOST_SNAPSHOTS", 4)
    monkeypatch.setattr(iceberg_catalog, "_KEPT_SNAPSHOTS", 2)
    for n in range(2, 9):
        lab.run("ods.t", day(n))
    table = lab.engine._catalog.load_table("ods.t")
    assert "created-by" not in table.properties
    assert len(table.snapshots()) <= 5


def test_pyiceberg_reads_what_was_published(lab: Lab):
    lab.table("ods.t", {"sql": QUERY, "target": {"type": "iceberg"}})
    lab.run("ods.t", day(1))
    lab.table(
        "ods.t", {"sql": QUERY.replace("v FROM", "v, 'x' AS w FROM"), "target": {"type": "iceberg"}}
    )
    lab.run("ods.t", day(2))
    rows = lab.engine._catalog.load_table("ods.t").scan().to_arrow().select(["day", "v", "w"])
    assert sorted(rows.to_pylist(), key=repr) == [
        {"day": 1, "v": 1, "w": None},
        {"day": 1, "v": 2, "w": None},
        {"day": 2, "v": 1, "w": "x"},
        {"day": 2, "v": 2, "w": "x"},
    ]


def test_a_published_folder_is_never_written_to_by_a_new_run_log(lab: Lab):
    for kind in ("iceberg", "parquet"):
        name = lab.table(f"ods.{kind}", {"sql": QUERY, "target": {"type": kind}})
        lab.run(name, day(1), job_id=1)
        lab.run(name, day(2), job_id=1)
        assert lab.rows(name) == [(1, 1), (1, 2), (2, 1), (2, 2)]


def test_a_replaced_window_of_files_stays_readable_for_those_who_hold_it(lab: Lab):
    lab.table("ods.t", {"sql": QUERY, "target": {"type": "parquet"}})
    lab.run("ods.t", day(1))
    held = lab.engine.read("ods.t")
    lab.run("ods.t", day(1))
    assert held.count() == 2
    folders = lab.warehouse / "ods/t/data"
    for _ in range(3):
        lab.run("ods.t", day(1))
    assert len(list(folders.iterdir())) == 2


def test_targets_of_files_name_a_store_that_is_not_known(lab: Lab):
    lab.settings["variables"] = {"lake": "ftp://bucket"}
    lab.table("ods.t", {"sql": QUERY, "target": {"type": "parquet", "path": "${lake}/t"}})
    with pytest.raises(TerminalStepError, match=r"must be a local folder.* ftp:// is not"):
        lab.run("ods.t", day(1))


@pytest.mark.usefixtures("long")
def test_raw_rows_lie_under_the_number_of_the_attempt_until_the_base_has_them_b34(lab: Lab):
    """BDRE's raw → stage → base: the mode is its insert type, and raw rows are always dropped."""
    for mode, kept in (("append", 2), ("overwrite_window", 2), ("overwrite", 1)):
        name = lab.table(
            f"ods.{mode}", {"sql": "SELECT 1 AS one", "target": {"type": "parquet", "mode": mode}}
        )
        for n in (1, 2):
            with lab.session(name, day(n)) as session:
                (staged,) = session.stage(lab.project.table(name).steps[0])
                raw = lab.path(str(staged.location))
                assert raw.name.partition("-")[0] == str(session._whole.job_id)
                assert raw.is_dir()
                session.publish("step_1", held)
        assert len(lab.rows(name)) == kept
        with lab.session(name, day(2)) as session:
            (staged,) = session.stage(lab.project.table(name).steps[0])
            session.discard()
        assert not lab.path(str(staged.location)).exists()
        assert len(lab.rows(name)) == kept


@pytest.mark.parametrize("kind", ["parquet", "iceberg", "sqlite"])
def test_rows_that_executors_wrote_elsewhere_fail_the_window(
    lab: Lab, kind: str, monkeypatch: pytest.MonkeyPatch
):
    """As on a cluster whose hosts do not share the warehouse: the files are not found here."""

    def counted_and_gone(*given: Any) -> QueryCounts:
        counts = run_counted(*given)
        for file in lab.root.rglob("part-*.parquet"):
            file.unlink()
        return counts

    lab.table("ods.t", {"sql": QUERY, "target": TARGETS[kind]})
    monkeypatch.setattr(staged_files, "run_counted", counted_and_gone)
    with pytest.raises(TransientStepError, match=r"wrote 2 rows, of which 0 are in .* share"):
        lab.run("ods.t", day(1))
