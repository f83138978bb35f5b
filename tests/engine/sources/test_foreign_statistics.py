"""Statistics of other writers: whatever they say or leave out, a window reads all of its rows.

Random tables of PyIceberg, delta-rs, DuckDB, PyArrow and Spark are read by each of their windows.
"""

import json
import random
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime, timedelta, timezone
from itertools import product
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from zoneinfo import ZoneInfo

import duckdb
import pyarrow as pa
import pytest
from deltalake import convert_to_deltalake, write_deltalake
from pyarrow import parquet
from pyiceberg import types as iceberg
from pyiceberg.schema import Schema

from logdriven_dagster.engine.iceberg.scan import plan
from logdriven_dagster.engine.sources import iceberg as iceberg_source
from logdriven_dagster.engine.sources.readers import Reading, read_source
from logdriven_dagster.engine.spark.session import fresh_session
from logdriven_dagster.engine.targets.iceberg.catalog import open_catalog
from logdriven_dagster.model.windows import TimeWindow
from logdriven_dagster.plugins.delta import reader as delta_reader
from tests.engine.foreign_tables import foreign_table
from tests.engine.laboratory import Lab

ZONE = ZoneInfo("America/New_York")
FIRST = datetime(2022, 11, 5)
"""The first of the windows' days; clocks go back on the second one."""
WINDOWS = [
    TimeWindow(
        *(datetime(2022, 11, d, tzinfo=ZONE).astimezone(timezone.utc) for d in pair), zone=ZONE
    )
    for pair in zip(range(5, 9), range(6, 10), strict=True)
]
Rows = Sequence[dict[str, Any]]

COLUMNS: dict[str, tuple[pa.DataType, Callable[[datetime], Any], Any]] = {
    "utc": (pa.timestamp("us", "UTC"), lambda at: at, "utc"),
    "clock": (pa.timestamp("us"), lambda at: local(at).replace(tzinfo=None), "clock"),
    "day": (pa.date32(), lambda at: local(at).date(), "day"),
    "millis": (
        pa.int64(),
        lambda at: round(at.timestamp() * 1000),
        {"name": "millis", "unit": "epoch_ms"},
    ),
    "text": (
        pa.string(),
        lambda at: local(at).strftime("%Y%m%d%H%M%S"),
        {"name": "text", "format": "yyyyMMddHHmmss"},
    ),
}
"""Column → its type, what it is for an instant, and the source's `window_column`."""


def local(at: datetime) -> datetime:
    return at.astimezone(ZONE)


def rows_of_files(chance: random.Random) -> list[Rows]:
    """The rows of some files, many of them near midnight; each file of a few days."""
    numbers = iter(range(10**6))
    files = []
    for _ in range(chance.randint(2, 5)):
        start = chance.randint(-30, 90)
        rows = []
        for _ in range(chance.randint(1, 8)):
            hours = start + chance.choice([0, 0, 1, 24, chance.randint(0, 30)])
            at = (FIRST + timedelta(hours=hours)).replace(tzinfo=ZONE).astimezone(timezone.utc)
            at += timedelta(microseconds=chance.choice([0, -1, 1, 999, 1000, -1000, 123456]))
            rows.append({"id": next(numbers), "at": None if chance.random() < 0.05 else at})
        files.append(rows)
    return files


def as_table(rows: Rows, column: str, chance: random.Random) -> pa.Table:
    """The rows with a column of their times, and a struct that holds it as well."""
    kind, convert, _ = COLUMNS[column]
    values = [row["at"] and convert(row["at"]) for row in rows]
    inner = pa.struct([(column, kind)])
    columns = {
        "id": pa.array([row["id"] for row in rows], pa.int64()),
        column: pa.array(values, kind),
        "s": pa.array([{column: value} for value in values], inner),
    }
    return pa.table({name: columns[name] for name in chance.sample([*columns], len(columns))})


def expected(files: Sequence[Rows], column: str) -> list[list[int]]:
    """The numbers of the rows of each window, by the meaning of the column."""

    def instant(at: datetime) -> datetime:
        if column == "utc":
            return at
        if column == "millis":
            return datetime.fromtimestamp(round(at.timestamp() * 1000) / 1000, timezone.utc)
        clock = COLUMNS[column][1](at)
        if column == "text":
            clock = datetime.strptime(clock, "%Y%m%d%H%M%S")
        if column == "day":
            clock = datetime(clock.year, clock.month, clock.day)
        return clock.replace(tzinfo=ZONE, fold=0).astimezone(timezone.utc)

    rows = [row for file in files for row in file if row["at"] is not None]
    return [
        sorted(row["id"] for row in rows if window.start <= instant(row["at"]) < window.end)
        for window in WINDOWS
    ]


def read(lab: Lab, source: dict[str, Any]) -> Iterator[list[int]]:
    """The numbers of the rows that each window reads."""
    lab.settings["timezone"] = str(ZONE)
    lab.table(
        "ods.t", {"source": source, "target": {"type": "parquet"}}, default_start="2022-11-05"
    )
    project = lab.project
    (step,) = project.table("ods.t").steps
    assert step.source is not None
    with fresh_session(lab.spark, project) as spark:
        for window in WINDOWS:
            run = lab.window_run("ods.t", window)
            reading = Reading(project, spark, run, lambda: open_catalog(project))
            frame = read_source(reading, step.source)
            yield sorted(row["id"] for row in frame.select("id").collect())


PARQUET_OPTIONS = [
    {},
    {"write_statistics": False},
    {"write_statistics": ["id"]},
    {"use_dictionary": False, "version": "1.0", "row_group_size": 2},
    {"data_page_version": "2.0", "write_page_index": True, "row_group_size": 3},
    {"store_schema": False, "compression": "gzip"},
]


WRITERS = ("pyarrow", "duckdb", "int96", "nanoseconds", "spark")


def put_parquet(
    lab: Lab, folder: Path, table: pa.Table, chance: random.Random, *, writers: int = 5
) -> str:
    """Write a file by one of the first `writers`, with times of one of the types of Parquet."""
    (column,) = {*COLUMNS} & {*table.column_names}
    folder.mkdir(parents=True, exist_ok=True)
    path = str(folder / f"{len([*folder.iterdir()])}.parquet")
    match chance.choice(["pyarrow", *WRITERS[:writers]]):
        case "int96" if column == "utc":
            parquet.write_table(table, path, use_deprecated_int96_timestamps=True)
        case "nanoseconds" if column in ("utc", "clock"):
            kind = pa.timestamp("ns", "UTC" if column == "utc" else None)
            number = table.schema.get_field_index(column)
            parquet.write_table(table.set_column(number, column, table[column].cast(kind)), path)
        case "duckdb":
            connection = duckdb.connect()
            connection.execute("SET TimeZone = 'UTC'")
            connection.register("rows", table)
            connection.execute(f"COPY (FROM rows) TO '{path}' (FORMAT parquet)")
        case "spark":
            parquet.write_table(table, f"{folder}-{Path(path).name}")
            frame = lab.spark.read.parquet(f"{folder}-{Path(path).name}")
            frame.coalesce(1).write.mode("append").parquet(str(folder))
        case _:
            parquet.write_table(table, path, **chance.choice(PARQUET_OPTIONS))
    return path


def files_of(lab: Lab, files: Sequence[Rows], column: str, chance: random.Random) -> Any:
    folder = lab.root / "in"
    for rows in files:
        put_parquet(lab, folder, as_table(rows, column, chance), chance)
    return {"type": "parquet", "path": "in"}


def delta_table(lab: Lab, files: Sequence[Rows], column: str, chance: random.Random) -> Any:
    """A table by delta-rs, of which other engines may have written the log's statistics."""
    folder = lab.root / "delta"
    kept = {"delta.dataSkippingNumIndexedCols": chance.choice(["0", "1", "32"])}
    if chance.random() < 0.3:
        kept = {"delta.dataSkippingStatsColumns": chance.choice(["id", "s", f"s.{column}"])}
    by = {"partition_by": [column]} if chance.random() < 0.3 and column != "clock" else {}
    if chance.random() < 0.25 and not by:
        for number, rows in enumerate(files):
            folder.mkdir(exist_ok=True)
            parquet.write_table(as_table(rows, column, chance), folder / f"{number}.parquet")
        convert_to_deltalake(str(folder))
    else:
        names = ["id", column, "s"]
        for rows in files:
            table = as_table(rows, column, chance).select(names)
            write_deltalake(str(folder), table, mode="append", configuration=kept, **by)
    for log in sorted((folder / "_delta_log").glob("*.json")):
        actions = [rewritten(json.loads(line), column, chance) for line in log.open()]
        log.write_text("".join(f"{json.dumps(action)}\n" for action in actions))
    return {"type": "delta", "path": "delta"}


def rewritten(action: dict[str, Any], column: str, chance: random.Random) -> dict[str, Any]:
    """Change what a log says of a file to what another engine would have said of it."""
    added = action.get("add")
    if added is None or not added.get("stats"):
        return action
    said = json.loads(added["stats"])
    match chance.choice(["same", "none", "rows", "zone", "no nulls"]):
        case "none":
            del added["stats"]
            return action
        case "rows":
            said = {"numRecords": said["numRecords"]}
        case "zone" if column == "utc":  # Spark writes milliseconds, by the clock of its session
            for part in ("minValues", "maxValues"):
                if text := said.get(part, {}).get(column):
                    at = datetime.fromisoformat(text.replace("Z", "+00:00")).astimezone(ZONE)
                    said[part][column] = at.isoformat(timespec="milliseconds")
        case "no nulls":
            said.pop("nullCount", None)
    added["stats"] = json.dumps(said)
    return action


KINDS = {
    "utc": iceberg.TimestamptzType(),
    "clock": iceberg.TimestampType(),
    "day": iceberg.DateType(),
    "millis": iceberg.LongType(),
    "text": iceberg.StringType(),
}
TRANSFORMS = {
    "utc": ["day", "hour", "month", "identity"],
    "clock": ["day", "hour", "year"],
    "day": ["identity", "month"],
    "millis": ["truncate[86400000]", "identity"],
    "text": ["truncate[8]", "identity"],
}


def iceberg_table(lab: Lab, files: Sequence[Rows], column: str, chance: random.Random) -> Any:
    """A table by PyIceberg, with metrics of some kind, and files that were added to it."""
    inner = iceberg.StructType(iceberg.NestedField(4, column, KINDS[column]))
    schema = Schema(
        iceberg.NestedField(1, "id", iceberg.LongType()),
        iceberg.NestedField(2, column, KINDS[column]),
        iceberg.NestedField(3, "s", inner),
    )
    is_partitioned = chance.random() < 0.5
    metrics = ["truncate(16)", "full"] + (
        [] if is_partitioned else ["none", "counts", "truncate(4)"]
    )
    properties = {"write.metadata.metrics.default": chance.choice(metrics)}
    table = foreign_table(lab, schema, name="sales.orders", properties=properties)
    transform = None
    for number, rows in enumerate(files):
        if is_partitioned and (transform is None or chance.random() < 0.4):
            transform = chance.choice(TRANSFORMS[column])
            with table.update_spec() as update:
                for each in table.spec().fields:
                    update.remove_field(each.name)
                update.add_field(column, transform, f"p{number}")
        data = as_table(rows, column, chance).select(["id", column, "s"])
        if is_partitioned:
            parts = enumerate(by_partition(table, data, column))
            table.add_files([put(lab, f"{number}-{n}", part) for n, part in parts])
        elif chance.random() < 0.4:
            path = put_parquet(lab, lab.root / f"added{number}", data, chance, writers=2)
            table.add_files([path])
        else:
            table.append(data.cast(table.schema().as_arrow()))
    return {"type": "iceberg", "name": "sales.orders"}


def by_partition(table: Any, data: pa.Table, column: str) -> list[pa.Table]:
    """The rows of each partition, divided as Iceberg divides them."""
    (field,) = table.spec().fields
    place = field.transform.transform(KINDS[column])
    stored = {"utc": pa.int64(), "clock": pa.int64(), "day": pa.int32()}.get(column)
    values = data[column].cast(stored).to_pylist() if stored else data[column].to_pylist()
    parts: dict[Any, list[int]] = {}
    for number, value in enumerate(values):
        parts.setdefault(None if value is None else place(value), []).append(number)
    return [data.take(numbers) for numbers in parts.values()]


def put(lab: Lab, name: str, rows: pa.Table) -> str:
    parquet.write_table(rows, path := str(lab.root / f"{name}.parquet"))
    return path


MAKERS = {"files": files_of, "delta": delta_table, "iceberg": iceberg_table}


def made(lab: Lab, made_by: str, column: str, seed: int) -> tuple[Any, list[list[int]]]:
    """A table's source, and the numbers of the rows of each window."""
    chance = random.Random(f"{made_by} {column} {seed}")
    files = rows_of_files(chance)
    source = MAKERS[made_by](lab, files, column, chance)
    return source | {"window_column": COLUMNS[column][2]}, expected(files, column)


def opened(lab: Lab, source: dict[str, Any]) -> Iterator[set[int]]:
    """The numbers of the rows in the files that each window opens."""
    lab.settings["timezone"] = str(ZONE)
    lab.table(
        "ods.t", {"source": source, "target": {"type": "parquet"}}, default_start="2022-11-05"
    )
    project = lab.project
    (step,) = project.table("ods.t").steps
    for window in WINDOWS:
        run = lab.window_run("ods.t", window)
        reading = Reading(project, lab.spark, run, lambda: None)
        if source["type"] == "delta":
            snapshot = delta_reader._open_table(reading, step.source)  # type: ignore[arg-type]
            paths = [each.location for each in delta_reader._files(snapshot, reading, step.source)]  # type: ignore[arg-type]
        else:
            table = open_catalog(project).load_table(source["name"])
            tasks = plan(table, iceberg_source._condition(table, reading, step.source))  # type: ignore[arg-type]
            paths = [each.file.file_path for each in tasks]
        local = [path.removeprefix("file://") for path in paths]
        yield {
            n for path in local for n in parquet.ParquetFile(path).read(["id"])["id"].to_pylist()
        }


class LabWithoutSpark(Lab):
    @property
    def engine(self) -> Any:
        return SimpleNamespace(_open_catalog=lambda: open_catalog(self.project))


def check_files(folder: Path, seeds: range) -> None:
    """Make tables of every column and kind; each window opens all files that hold its rows."""
    for made_by, column, seed in product(("delta", "iceberg"), COLUMNS, seeds):
        root = folder / f"{made_by}{column}{seed}"
        root.mkdir()
        lab = LabWithoutSpark(root, None)
        source, rows = made(lab, made_by, column, seed)
        for found, wanted in zip(opened(lab, source), rows, strict=True):
            assert set(wanted) <= found, (made_by, column, seed)


@pytest.mark.usefixtures("slow")
def test_no_file_with_rows_of_a_window_is_passed_over(tmp_path: Path):
    check_files(tmp_path, range(3))


@pytest.mark.usefixtures("long")
def test_no_file_of_many_random_tables_is_passed_over(tmp_path: Path):
    check_files(tmp_path, range(3, 40))


@pytest.mark.sampled
@pytest.mark.parametrize("column", COLUMNS)
@pytest.mark.parametrize("made_by", MAKERS)
def test_a_window_reads_all_of_its_rows_with_wrong_statistics_too(
    lab: Lab, made_by: str, column: str
):
    source, rows = made(lab, made_by, column, seed=1)
    assert list(read(lab, source)) == rows


@pytest.mark.usefixtures("long")
@pytest.mark.parametrize("seed", range(2, 6))
@pytest.mark.parametrize("column", COLUMNS)
@pytest.mark.parametrize("made_by", MAKERS)
def test_windows_of_random_tables_read_all_of_their_rows(
    lab: Lab, made_by: str, column: str, seed: int
):
    source, rows = made(lab, made_by, column, seed)
    assert list(read(lab, source)) == rows
