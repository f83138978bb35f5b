"""A window reads only the files that can hold its rows, by their times as they were counted."""

import os
import random
import shutil
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import parquet

from logdriven_dagster.config.models.types.time_columns import TimeColumn
from logdriven_dagster.engine.queries.window_values import window_values
from logdriven_dagster.engine.sources.file_rows import (
    ALL_FILES,
    FileSelection,
    choose_files,
    group_by_file,
    read_groups,
)
from logdriven_dagster.engine.spark import functions as sf
from logdriven_dagster.engine.spark.session import fresh_session
from logdriven_dagster.execution.events import WindowFailed, WindowSucceeded
from logdriven_dagster.model.source_rows import FileRows, FileVersion
from tests import builders
from tests.engine.laboratory import Lab
from tests.engine.sources.time_values import BOUNDS, COLUMNS, WINDOWS, ZONE, values
from tests.execution.conftest import World

NOW = builders.at("2022-01-05 14:00")
TABLE = """
    table: ods.events
    period: {period}
    default_start: 2022-01-01
    batch_size: 1
    steps:
      - step: load
        source: {{{source}, window_column: {column}}}
        target: {{type: parquet}}
"""
DAYS = range(1, 5)
HOURS = range(0, 24, 6)


def times(day: int) -> list[datetime]:
    return [datetime(2022, 1, day, hour, tzinfo=timezone.utc) for hour in HOURS]


def frame(spark: Any, day: int) -> Any:
    rows = [(day * 100 + n, time) for n, time in enumerate(times(day))]
    return spark.createDataFrame(rows, "id INT, at TIMESTAMP")


def by_spark(kind: str) -> Callable[[Any, Path], None]:
    def write(spark: Any, root: Path) -> None:
        for day in DAYS:
            target = root / f"ds=2022-01-0{day}"
            writer = frame(spark, day).coalesce(1).write
            writer.option("header", "true").format(kind).save(str(target))

    return write


def naive(_spark: Any, root: Path) -> None:
    """Times without a zone, whose row groups Spark 4.3 does not skip."""
    root.mkdir()
    for day in DAYS:
        found = [time.replace(tzinfo=None) for time in times(day)]
        rows = pa.table({"id": pa.array(range(4), pa.int32()), "at": pa.array(found)})
        parquet.write_table(rows, root / f"{day}.parquet")


def of_two_shapes(_spark: Any, root: Path) -> None:
    root.mkdir()
    for day in DAYS:
        kind = pa.int32() if day % 2 else pa.int64()
        rows = pa.table({"id": pa.array(range(4), kind), "at": pa.array(times(day))})
        parquet.write_table(rows, root / f"{day}.parquet")


def numbers(_spark: Any, root: Path) -> None:
    root.mkdir()
    for day in DAYS:
        lines = [f"{n},{int(time.timestamp() * 1000)}" for n, time in enumerate(times(day))]
        (root / f"{day}.csv").write_text("\n".join(["id,at", *lines]))


def texts(_spark: Any, root: Path) -> None:
    root.mkdir()
    for day in DAYS:
        lines = [f"{n},{time:%Y%m%d%H}" for n, time in enumerate(times(day))]
        (root / f"{day} of 'it'.csv").write_text("\n".join(["id,at", *lines]))


CSV = "type: csv, path: in, header: true"
LAYOUTS = {
    "parquet of Spark": (by_spark("parquet"), "type: parquet, path: in", "at"),
    "orc": (by_spark("orc"), "type: orc, path: in", "at"),
    "csv": (by_spark("csv"), f'{CSV}, columns: "id INT, at TIMESTAMP, ds DATE"', "at"),
    "csv by folder": (by_spark("csv"), f'{CSV}, columns: "id INT, at TIMESTAMP, ds DATE"', "ds"),
    "json": (by_spark("json"), 'type: json, path: in, columns: "id INT, at TIMESTAMP"', "at"),
    "times without a zone": (naive, "type: parquet, path: in", "at"),
    "two shapes": (of_two_shapes, "type: parquet, path: in", "at"),
    "epoch": (numbers, f'{CSV}, columns: "id INT, at BIGINT"', "{name: at, unit: epoch_ms}"),
    "pattern": (
        numbers,
        'type: csv, path: in/*.csv, header: true, columns: "id INT, at BIGINT"',
        "{name: at, unit: epoch_ms}",
    ),
    "text": (texts, f'{CSV}, columns: "id INT, at STRING"', "{name: at, format: yyyyMMddHH}"),
}


def files_read(spark: Any, since: int) -> tuple[int, int]:
    """Spark's own count of files read by queries since one, and the last query."""
    store = spark._jsparkSession.sharedState().statusStore()
    found, last, executions = 0, since, store.executionsList()
    for number in range(executions.size()):
        execution = executions.apply(number)
        last = max(last, execution.executionId())
        if execution.executionId() > since:
            values, metrics = store.executionMetrics(execution.executionId()), execution.metrics()
            of_scans = {
                metrics.apply(n).accumulatorId()  # an adaptive plan repeats them
                for n in range(metrics.size())
                if metrics.apply(n).name() == "number of files read"
            }
            counts = (values.get(each) for each in of_scans)
            found += sum(int(each.get().replace(",", "")) for each in counts if each.isDefined())
    return found, last


def run_window(world: World) -> int:
    """Run the next window; return the files that Spark read for it."""
    _, since = files_read(world.spark, -1)
    (event,) = [e for e in world.catch_up(now=NOW, max_windows=1) if hasattr(e, "steps")]
    assert event.steps[0].counts.source == len(HOURS)
    return files_read(world.spark, since)[0]


@pytest.fixture
def world(tmp_path: Path, spark: Any) -> World:
    world = World(tmp_path, spark)
    shutil.rmtree(world.root / "tables")
    return world


def declare(world: World, layout: str) -> None:
    write, source, column = LAYOUTS[layout]
    write(world.spark, world.root / "in")
    text = TABLE.format(period="1 day", source=source, column=column)
    world.write("tables/events.yaml", text)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_each_window_reads_the_file_of_its_day(world: World, layout: str):
    declare(world, layout)
    queries = 2 if layout == "json" else 1  # one more reads the objects as text
    assert run_window(world) == (len(DAYS) + 1) * queries  # once, all files are counted
    assert [run_window(world) for _ in DAYS[1:]] == [queries] * 3
    assert len(world.rows("ods.events")) == len(DAYS) * len(HOURS)


def test_a_new_or_changed_file_is_counted_alone(world: World):
    declare(world, "epoch")
    run_window(world)
    more = world.root / "in/more.csv"
    more.write_text("id,at\n7,1641171600000\n")  # of the third day
    run_window(world)  # the second day
    (rows,) = world.runner.run_log.ask(read_rows)
    assert {Path(file.version[0]).name: file.total for file in rows.files}["more.csv"] == 1
    _, since = files_read(world.spark, -1)
    more.write_text("id,at\n7,1641258000000\n8,\n")  # of the fourth day
    world.catch_up(now=NOW, max_windows=1)
    # Counted anew, and read: the file of the third day, and that with a row without a time.
    assert files_read(world.spark, since)[0] == 1 + 2
    (rows,) = world.runner.run_log.ask(read_rows)
    assert (rows.total, rows.unplaced) == (len(DAYS) * len(HOURS) + 2, 1)
    more.unlink()
    world.catch_up(now=NOW)
    (rows,) = world.runner.run_log.ask(read_rows)
    assert rows.total == len(DAYS) * len(HOURS)
    assert len(world.rows("ods.events")) == len(DAYS) * len(HOURS)


@pytest.mark.parametrize("layout", ["epoch", "pattern"])
def test_a_file_that_arrives_between_two_windows_is_read(world: World, layout: str):
    declare(world, layout)
    later = world.root / "in/2.csv"
    text = later.read_text()
    later.unlink()
    for event in world.runner.catch_up(NOW):
        if isinstance(event, WindowSucceeded) and not later.exists():
            later.write_text(text)
    assert len(world.rows("ods.events")) == len(DAYS) * len(HOURS)


def test_files_in_plain_folders_are_refused_if_spark_would_read_none(world: World):
    declare(world, "epoch")
    for day in DAYS:
        (world.root / f"in/2022/01/{day}").mkdir(parents=True)
        (world.root / f"in/{day}.csv").rename(world.root / f"in/2022/01/{day}/all.csv")
    (failed,) = [e for e in world.catch_up(now=NOW, max_windows=1) if isinstance(e, WindowFailed)]
    assert "recursiveFileLookup: true" in failed.error
    table = (world.root / "tables/events.yaml").read_text()
    option = "options: {recursiveFileLookup: true}, header"
    world.write("tables/events.yaml", table.replace("header", option, 1))
    world.catch_up(now=NOW)
    assert len(world.rows("ods.events")) == len(DAYS) * len(HOURS)


@pytest.mark.parametrize("year", [2022, 2200])
def test_a_file_that_is_replaced_under_its_old_time_and_size_is_counted_again(
    world: World, year: int
):
    declare(world, "epoch")
    for file in (world.root / "in").iterdir():
        os.utime(file, (datetime(year, 1, 1, tzinfo=timezone.utc).timestamp(),) * 2)
    run_window(world)
    second, third = (world.root / f"in/{day}.csv" for day in (2, 3))
    before = third.stat()
    second.rename(world.root / "in/second.csv")
    third.write_text(third.read_text().replace("0,1641168", "0,1641082"))  # a row of the day before
    os.utime(third, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert third.stat().st_size == before.st_size
    world.catch_up(now=NOW, max_windows=1)
    assert len(world.rows("ods.events")) == 2 * len(HOURS) + 1


def read_rows(conn: Any) -> Any:
    from logdriven_dagster.runlog.observed import audits

    return audits.read_source_rows(conn, ["ods.events"], with_files=True)


def test_an_hour_reads_the_files_of_its_own_rows_only(world: World):
    declare(world, "parquet of Spark")
    text = (world.root / "tables/events.yaml").read_text().replace("1 day", "6 hours")
    world.write("tables/events.yaml", text)
    world.catch_up(now=NOW, max_windows=4)
    _, since = files_read(world.spark, -1)
    world.catch_up(now=NOW, max_windows=4)
    assert files_read(world.spark, since)[0] == 4
    assert len(world.rows("ods.events")) == 2 * len(HOURS)


def test_a_malformed_record_without_a_time_fails_its_window(world: World):
    declare(world, "epoch")
    file = world.root / "in/4.csv"
    file.write_text(file.read_text() + "\n9,oops\n")
    (failed,) = [e for e in world.catch_up(now=NOW, max_windows=1) if isinstance(e, WindowFailed)]
    assert "oops" in failed.error


def write_json(world: World, odd: str, fields: str = "") -> list[WindowFailed]:
    """Write a file for each day, another text into that of the third, and run the windows."""
    (world.root / "in").mkdir()
    for day in DAYS:
        record = f'{{"id": {day}, "at": "2022-01-0{day} 10:00:00"}}'
        (world.root / f"in/{day}.json").write_text(record if day != 3 else odd)
    source = f'type: json, path: in, columns: "id INT, at TIMESTAMP"{fields}'
    world.write("tables/events.yaml", TABLE.format(period="1 day", source=source, column="at"))
    return [e for e in world.runner.catch_up(NOW) if isinstance(e, WindowFailed)]


def test_each_file_of_json_is_checked_although_a_window_reads_some_of_them(world: World):
    failed = write_json(world, '{"id": 3, "at": "2022-01-03 10:00:00", "extra": 1}')
    assert [event.attempt.window for event in failed] == [builders.day(3)]
    assert "field extra" in failed[0].error


@pytest.mark.parametrize(
    ("fields", "problem"), [("", "line 1: text after the end"), (", multiline: true", "several")]
)
@pytest.mark.parametrize("mode", ["FAILFAST", "PERMISSIVE"])
def test_a_file_with_objects_that_spark_skips_fails_every_window(
    world: World, fields: str, problem: str, mode: str
):
    several = "".join(f'{{"id": {day}, "at": "2022-01-0{day} 10:00:00"}}' for day in (3, 1))
    failed = write_json(world, several, f"{fields}, mode: {mode}")
    assert [event.attempt.window for event in failed] == [builders.day(1)]
    assert problem in failed[0].error


def test_a_column_named_as_that_of_spark_turns_the_choice_of_files_off(world: World):
    (world.root / "in").mkdir()
    for day in DAYS:
        rows = pa.table({"_metadata": ["x"] * 4, "at": pa.array(times(day))})
        parquet.write_table(rows, world.root / f"in/{day}.parquet")
    text = TABLE.format(period="1 day", source="type: parquet, path: in", column="at")
    world.write("tables/events.yaml", text)
    assert run_window(world) == 2 * len(DAYS)
    assert run_window(world) == len(DAYS)


def rows_of(name: str, first: Any, last: Any, unplaced: int = 0) -> FileRows:
    return FileRows(f"file:/in/{name}", FileVersion(name, 1, 1, 1), 10, unplaced, 0, 0, first, last)


class Source:
    def __init__(self, column: Any) -> None:
        self.window_column = column


DAY = builders.day(2)
START, END = (int(each.timestamp()) * 1_000_000 for each in (DAY.start, DAY.end))


@pytest.mark.parametrize(
    ("first", "last", "is_read"),
    [
        (START, START, True),
        (START - 5, START - 1, False),
        (END - 1, END + 5, True),
        (END, END + 5, False),
        (START - 5, END + 5, True),
        (None, None, False),
    ],
)
def test_a_file_is_read_if_a_time_between_its_first_and_last_lies_in_the_window(
    first: int | None, last: int | None, *, is_read: bool
):
    other = rows_of("other", END + 10, END + 20)
    found = choose_files(Source("at"), [rows_of("one", first, last), other], DAY)  # type: ignore[arg-type]
    assert found == FileSelection(frozenset({"file:/in/one"} if is_read else ()))


def test_numbers_that_have_become_texts_turn_the_choice_of_files_off():
    files = [rows_of("one", 20220101, 20220101), rows_of("two", "20220102", "20220103")]
    column = TimeColumn(name="at", format="yyyyMMdd")
    assert choose_files(Source(column), files, DAY) is None  # type: ignore[arg-type]
    assert choose_files(Source(column), files[1:], DAY) is None  # type: ignore[arg-type]
    assert choose_files(Source(column), files[:1], DAY) == FileSelection(frozenset())  # type: ignore[arg-type]


def test_a_window_that_needs_all_files_selects_none_of_them():
    files = [rows_of("one", START, END), rows_of("two", START, END)]
    assert choose_files(Source("at"), files, DAY) is None  # type: ignore[arg-type]


NATIVE = {
    "utc": (pa.timestamp("us", "UTC"), "v"),
    "clock": (pa.timestamp("us"), "v"),
    "date": (pa.date32(), "v"),
    "written": (pa.string(), "v"),
}
"""Column → its type and `window_column`, for times that Spark knows by themselves."""


def native_value(name: str, chance: random.Random) -> Any:
    seconds = chance.choice(BOUNDS) + chance.choice([-3600, -1, 0, 1, chance.randint(-9999, 9999)])
    at = datetime.fromtimestamp(seconds, timezone.utc) + timedelta(
        microseconds=chance.choice([0, 1])
    )
    clock = at.astimezone(ZONE).replace(tzinfo=None)
    found = {"utc": at, "clock": clock, "date": clock.date(), "written": str(clock)}
    return None if chance.random() < 0.1 else found[name]


@pytest.mark.parametrize("seed", [7, 45])
def test_no_file_that_holds_a_row_of_a_window_is_left_out(lab: Lab, seed: int):
    chance = random.Random(seed)
    lab.settings["timezone"] = str(ZONE)
    with fresh_session(lab.spark, lab.project) as spark:
        for name, (kind, meaning) in COLUMNS.items():
            made = values(name, chance)
            parts = [chance.sample(made, chance.choice([1, 2, 3, 9])) for _ in range(20)]
            column = TimeColumn(name="v", **meaning)
            assert_chosen(spark, lab.root / name, [pa.array(part, kind) for part in parts], column)
        for name, (kind, column) in NATIVE.items():
            parts = [[native_value(name, chance) for _ in range(3)] for _ in range(20)]
            assert_chosen(spark, lab.root / name, [pa.array(part, kind) for part in parts], column)


def assert_chosen(spark: Any, folder: Path, parts: list[pa.Array], column: Any) -> None:
    folder.mkdir()
    for number, part in enumerate(parts):
        parquet.write_table(pa.table({"v": part}), folder / f"{number}.parquet")
    frame = spark.read.parquet(str(folder))
    placed = window_values(column, frame, ZONE)
    conditions = {"unplaced": f"{placed.placed} IS NULL", "before": "false", "after": "false"}
    named = replace(ALL_FILES, with_names=True).apply(frame)
    versions = {FileVersion(str(path), 1, 1, 1) for path in folder.iterdir()}
    files = read_groups(group_by_file(named, conditions, placed.position).collect(), versions)
    assert files is not None
    assert sum(file.total for file in files) == sum(map(len, parts))
    held = [f"count_if({placed.lies_within(each)}) AS w{n}" for n, each in enumerate(WINDOWS)]
    counted = frame.groupBy("_metadata.file_path").agg(*map(sf.expr, held)).collect()
    for number, each in enumerate(WINDOWS):
        found = choose_files(Source(column), files, each)  # type: ignore[arg-type]
        chosen = {file.location for file in files} if found is None else found.locations
        needed = {row["file_path"] for row in counted if row[f"w{number}"]}
        assert needed <= chosen, (folder.name, each)
        rows = frame if found is None else found.apply(frame)
        if number % 3 == 0:
            assert rows.where(placed.lies_within(each)).count() == sum(
                row[f"w{number}"] for row in counted
            )
