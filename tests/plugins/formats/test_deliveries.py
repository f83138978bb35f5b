"""Each format is a source of files like CSV: windows, deliveries, changes, batches and buckets."""

import os
from collections.abc import Callable, Sequence
from datetime import datetime
from io import BytesIO
from itertools import count
from pathlib import Path
from typing import Any

import fastavro
import pytest
from openpyxl import Workbook, load_workbook

from logdriven_dagster.config import load_project
from logdriven_dagster.engine import WindowSession
from logdriven_dagster.execution.events import WindowSucceeded
from logdriven_dagster.model.windows import TimeWindow
from tests.builders import at, day
from tests.execution.conftest import World
from tests.lake import Lake
from tests.needs import rarely

NOW = at("2022-01-04")
Row = tuple[int, datetime]
_CHANGES = count(1)


def write_avro(file: Path, rows: Sequence[Row]) -> None:
    instant = {"type": "long", "logicalType": "timestamp-micros"}
    fields = [{"name": "n", "type": "int"}, {"name": "at", "type": instant}]
    with file.open("wb") as stream:
        values = [{"n": n, "at": time} for n, time in rows]
        fastavro.writer(stream, {"type": "record", "name": "r", "fields": fields}, values)


def write_excel(file: Path, rows: Sequence[Row]) -> None:
    book = Workbook()
    for row in [("n", "at"), *((n, time.replace(tzinfo=None)) for n, time in rows)]:
        book.active.append(row)
    book.save(file)


def write_fixed_width(file: Path, rows: Sequence[Row]) -> None:
    file.write_text("".join(f"{n:4}{time:%Y-%m-%d %H:%M}\n" for n, time in rows))


def write_xml(file: Path, rows: Sequence[Row]) -> None:
    found = "".join(f"<r n='{n}'><at>{time.isoformat()}</at></r>" for n, time in rows)
    file.write_text(f"<rows>{found}</rows>")


COLUMNS = "n INT, at TIMESTAMP"
FORMATS: dict[str, tuple[Callable[[Path, Sequence[Row]], None], dict[str, Any]]] = {
    "avro": (write_avro, {"columns": COLUMNS}),
    "excel": (write_excel, {"columns": COLUMNS}),
    "fixed_width": (write_fixed_width, {"columns": COLUMNS, "widths": [4, 16]}),
    "xml": (write_xml, {"columns": "_n INT, at TIMESTAMP", "row_tag": "r"}),
}
each_format = pytest.mark.parametrize("kind", ["avro", *rarely("excel", "fixed_width", "xml")])


class Inbox:
    """A table over the files of a folder, with the number and the file of each row."""

    def __init__(self, world: World, kind: str, source: dict[str, Any], **table: Any) -> None:
        (world.root / "tables/numbers.yaml").unlink()
        (world.root / "tables/sums.yaml").unlink()
        self.world = world
        self._write, given = FORMATS[kind]
        number, by_time = "_n" if kind == "xml" else "n", "window_column" in source
        step = {
            "step": "load",
            "source": {"type": kind, **given, "file_columns": {"file": "file_name"}, **source},
            "sql": f"SELECT coalesce({number}, 0) AS n, file, at FROM source",
            "target": {"type": "parquet", **({"window_column": "at"} if by_time else {})},
        }
        start = {} if "incremental_type" in table else {"default_start": "2022-01-01"}
        fields = {"table": "ods.t", "period": "1 day", **start, **table}
        world.write("tables/t.yaml", str(fields | {"steps": [step]}))

    def put(self, name: str, *rows: Row) -> None:
        """Write a file, always with a new time of modification."""
        file = self.world.root / "in" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        self._write(file, rows)
        time = 1_000_000 + next(_CHANGES)
        os.utime(file, (time, time))

    def run(self, **options: Any) -> list[TimeWindow]:
        events = self.world.catch_up(**{"now": NOW, **options})
        return [each.attempt.window for each in events if isinstance(each, WindowSucceeded)]

    @property
    def rows(self) -> list[tuple[Any, ...]]:
        return [row[:2] for row in self.world.rows("ods.t")]


@pytest.fixture
def world(tmp_path: Path, spark: Any) -> World:
    return World(tmp_path, spark)


def noon(number: int) -> datetime:
    return at(f"2022-01-0{number} 12:00")


@each_format
def test_each_new_file_is_loaded_once(world: World, kind: str):
    inbox = Inbox(world, kind, {"path": "in/*"}, incremental_type="files")
    inbox.put("a", (1, noon(1)))
    inbox.run(now=at("2022-01-02"))
    inbox.put("b", (2, noon(1)), (3, noon(1)))
    inbox.run(now=at("2022-01-03"))
    inbox.run(now=at("2022-01-04"))
    assert inbox.rows == [(1, "a"), (2, "b"), (3, "b")]


@each_format
def test_a_window_waits_for_the_files_of_its_day(world: World, kind: str):
    path = "in/${DATA_RANGE_START:yyyyMMdd}-*"
    inbox = Inbox(world, kind, {"path": path, "missing_files": "wait"})
    inbox.put("20220101-a", (1, noon(1)))
    inbox.put("20220103-a", (3, noon(3)))
    assert inbox.run() == [day(1)]
    inbox.put("20220102-a", (2, noon(2)))
    assert inbox.run() == [day(2), day(3)]
    assert inbox.rows == [(n, f"2022010{n}-a") for n in (1, 2, 3)]


@each_format
def test_days_without_files_have_no_rows(world: World, kind: str):
    path = "in/${DATA_RANGE_START:yyyyMMdd}-*"
    inbox = Inbox(world, kind, {"path": path, "missing_files": "no_rows"})
    inbox.put("20220102-a", (2, noon(2)))
    assert inbox.run() == [day(1), day(2), day(3)]
    assert inbox.rows == [(2, "20220102-a")]


@each_format
def test_a_batch_of_windows_has_the_rows_of_each_and_a_change_reruns_one(
    world: World, kind: str, monkeypatch: pytest.MonkeyPatch
):
    stretches = []
    stage = WindowSession.stage

    def counted(session: Any, step: Any) -> Any:
        stretches.append(len(session._runs))
        return stage(session, step)

    monkeypatch.setattr(WindowSession, "stage", counted)
    source = {"path": "in", "window_column": "at"}
    inbox = Inbox(world, kind, source, batch_size="all", on_source_change="rerun")
    for number in (1, 2, 3):
        inbox.put(f"{number}", (number, noon(number)), (10 + number, noon(number)))
    assert inbox.run() == [day(1), day(2), day(3)]
    assert stretches == [3]
    assert inbox.rows == sorted((n, str(n % 10)) for n in (1, 2, 3, 11, 12, 13))
    assert [row["steps"][0]["source_count"] for row in world.log("ods.t")] == [2, 2, 2]
    inbox.put("2", (22, noon(2)))
    assert inbox.run() == [day(2)]
    assert inbox.rows == sorted((n, str(n % 10)) for n in (1, 3, 11, 13, 22))
    assert inbox.run() == []


@pytest.mark.parametrize("kind", ["excel", *rarely("fixed_width", "xml")])
@pytest.mark.parametrize(
    ("mode", "loaded"), [("PERMISSIVE", [(0, "f"), (1, "f")]), ("DROPMALFORMED", [(1, "f")])]
)
def test_records_that_do_not_fit_are_counted(
    world: World, kind: str, mode: str, loaded: list[tuple[Any, ...]]
):
    """A record without a time belongs to no window."""
    inbox = Inbox(world, kind, {"path": "in", "window_column": "at", "mode": mode})
    inbox.put("f", (1, noon(1)), (2, noon(1)), (3, noon(2)), (4, noon(2)))
    damage(world.root / "in/f", kind)
    assert inbox.run(now=at("2022-01-03")) == [day(1), day(2)]
    assert inbox.rows == [*loaded, (3, "f")]
    steps = [row["steps"][0] for row in world.log("ods.t")]
    assert [step["malformed_count"] for step in steps] == [1, 0]


def damage(file: Path, kind: str) -> None:
    """Change the number 2 and the time of the number 4 to texts."""
    if kind == "excel":
        book = load_workbook(BytesIO(file.read_bytes()))
        book.active["A3"], book.active["B5"] = "x", "soon"
        book.save(file)
        return
    old, new = ("'2'", "'x'") if kind == "xml" else ("   2", "   x")
    number = "'4'><at>" if kind == "xml" else "   4"
    before, after = file.read_text().replace(old, new).split(number)
    file.write_text(f"{before}{number}2022-99{after[7:]}")


@each_format
def test_files_in_a_bucket_are_read_by_window(world: World, kind: str, lake: Lake):
    url = lake.url(world.root / "in")
    inbox = Inbox(world, kind, {"path": url, "window_column": "at"})
    storage = lake.settings(world.root)["storage"]
    world.write("logdriven.yaml", str({"project": "world", "storage": storage}))
    assert load_project(world.root).storage
    for number in (1, 2):
        inbox.put(f"{number}", (number, noon(number)))
    inbox.run(now=at("2022-01-03"))
    assert inbox.rows == [(1, "1"), (2, "2")]
