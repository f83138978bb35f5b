"""Files that are delivered again after their windows ran, on Spark."""

import json
import os
import shutil
from collections.abc import Callable, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import orc, parquet

from logdriven_dagster.engine.sources.files.typed import footers
from logdriven_dagster.execution.events import WindowSucceeded
from logdriven_dagster.model.windows import TimeWindow
from logdriven_dagster.runlog.observed import audits
from tests.builders import at, day
from tests.execution.conftest import World
from tests.lake import Lake
from tests.needs import rarely

NOW = at("2022-01-05")
TABLE = """
    table: ods.events
    period: 1 day
    default_start: 2022-01-01
    batch_size: {batch_size}
    ordered: {ordered}
    on_source_change: rerun
    steps:
      - step: load
        source: {{type: {kind}, path: {path}, {options}window_column: at}}
        target: {{type: parquet, window_column: at}}
"""
Row = tuple[int, str]


def write_csv(file: Path, rows: Sequence[Row]) -> None:
    file.write_text("\n".join(["n,at", *(f"{n},{time}" for n, time in rows)]))


def write_json(file: Path, rows: Sequence[Row]) -> None:
    file.write_text("\n".join(json.dumps({"n": n, "at": time}) for n, time in rows))


def _frame(rows: Sequence[Row]) -> pa.Table:
    numbers, times = zip(*rows, strict=True)
    return pa.table({"n": pa.array(numbers, pa.int32()), "at": pa.array(map(at, times))})


def write_parquet(file: Path, rows: Sequence[Row]) -> None:
    parquet.write_table(_frame(rows), file)


def write_orc(file: Path, rows: Sequence[Row]) -> None:
    orc.write_table(_frame(rows), file)


COLUMNS = 'columns: "n INT, at TIMESTAMP", '
FORMATS: dict[str, tuple[Callable[[Path, Sequence[Row]], None], str]] = {
    "csv": (write_csv, f"header: true, {COLUMNS}"),
    "json": (write_json, COLUMNS),
    "parquet": (write_parquet, ""),
    "orc": (write_orc, ""),
}


class Deliveries:
    """A table over files of a format, one for each of four days."""

    def __init__(
        self,
        world: World,
        kind: str,
        path: str = "in",
        *,
        batch_size: Any = "all",
        ordered: bool = True,
    ) -> None:
        (world.root / "tables/numbers.yaml").unlink()
        (world.root / "tables/sums.yaml").unlink()
        self.world, self.kind = world, kind
        self._write, options = FORMATS[kind]
        fields = {"kind": kind, "path": path, "options": options}
        text = TABLE.format(**fields, batch_size=batch_size, ordered=str(ordered).lower())
        world.write("tables/events.yaml", text)
        (world.root / "in").mkdir()
        for n in range(1, 5):
            self.deliver(f"{n:02}", (n, _time(n)))

    def deliver(self, name: str, *rows: Row) -> None:
        self._write(self.world.root / f"in/{name}.{self.kind}", rows)

    def run(self, now: datetime = NOW, **options: Any) -> list[TimeWindow]:
        events = self.world.catch_up(now=now, **options)
        return [each.attempt.window for each in events if isinstance(each, WindowSucceeded)]

    @property
    def numbers(self) -> list[int]:
        return sorted(n for n, _ in self.world.rows("ods.events"))

    @property
    def outdated(self) -> list[TimeWindow]:
        log = self.world.runner.plan(NOW).tables["ods.events"].log
        return [each.window for each in log.changed]


def _time(n: int, hour: int = 12) -> str:
    return f"2022-01-0{n} {hour}:00:00"


@pytest.fixture
def world(tmp_path: Path, spark: Any) -> World:
    return World(tmp_path, spark)


@pytest.mark.parametrize("kind", ["csv", *rarely("json", "parquet", "orc")])
def test_a_value_that_changed_in_a_delivered_file_is_read_by_a_rerun(world: World, kind: str):
    deliveries = Deliveries(world, kind)
    assert deliveries.run() == [day(n) for n in range(1, 5)]
    assert deliveries.outdated == []
    deliveries.deliver("02", (20, _time(2)))
    assert deliveries.outdated == [day(2)]
    assert deliveries.run() == [day(2)]
    assert deliveries.numbers == [1, 3, 4, 20]
    assert (deliveries.outdated, deliveries.run()) == ([], [])


def test_rows_that_moved_to_another_window_or_arrived_late_are_read_in_one_run(world: World):
    deliveries = Deliveries(world, "csv")
    deliveries.run()
    deliveries.deliver("02", (20, _time(4)))
    deliveries.deliver("late", (30, _time(3)))
    # The file of the second day is noticed at once, the others when that window reads.
    assert deliveries.run() == [day(2), day(3), day(4)]
    assert deliveries.numbers == [1, 3, 4, 20, 30]
    assert (deliveries.outdated, deliveries.run()) == ([], [])


def test_a_window_that_ran_next_to_the_one_that_counted_its_file_is_up_to_date(world: World):
    deliveries = Deliveries(world, "csv", batch_size=1, ordered=False)
    deliveries.run()
    for n in (5, 6):
        deliveries.deliver(f"{n:02}", (n, _time(n)))
    assert sorted(deliveries.run(now=at("2022-01-07"), max_parallel=2)) == [day(5), day(6)]
    assert deliveries.outdated == []
    assert deliveries.numbers == [1, 2, 3, 4, 5, 6]


def test_the_files_of_a_project_that_has_moved_are_not_reported(tmp_path: Path, spark: Any):
    first, second = tmp_path / "first", tmp_path / "second"
    first.mkdir()
    deliveries = Deliveries(World(first, spark), "csv")
    settings = {
        "project": "world",
        "warehouse": str(tmp_path / "warehouse"),
        "run_log": f"sqlite:///{tmp_path}/log.db",
    }
    deliveries.world.write("logdriven.yaml", json.dumps(settings))
    deliveries.run()
    shutil.move(first, second)
    deliveries.world.root = second
    assert (deliveries.outdated, deliveries.run()) == ([], [])
    deliveries.deliver("05", (5, _time(5)))
    assert deliveries.run(now=at("2022-01-06")) == [day(5)]
    deliveries.deliver("02", (20, _time(2)))
    assert deliveries.run(now=at("2022-01-06")) == [day(2)]
    assert deliveries.numbers == [1, 3, 4, 5, 20]


def test_a_late_file_is_noticed_by_the_next_window_that_reads(world: World):
    deliveries = Deliveries(world, "csv", batch_size=1)
    (world.root / "in/04.csv").unlink()
    world.catch_up(now=at("2022-01-04"))
    deliveries.deliver("late", (30, _time(3)))
    deliveries.deliver("04", (4, _time(4)))
    assert deliveries.run() == [day(4), day(3)]
    assert deliveries.numbers == [1, 2, 3, 4, 30]


def test_files_of_folders_that_name_the_window_are_read_again(world: World):
    deliveries = Deliveries(world, "csv", path='"in/${DATA_RANGE:dd}*"', batch_size=1)
    assert deliveries.run() == [day(n) for n in range(1, 5)]
    assert deliveries.outdated == []
    for n in (1, 3):
        deliveries.deliver(f"{n:02}", (n * 10, _time(n)))
    assert deliveries.run() == [day(1), day(3)]
    assert deliveries.numbers == [2, 4, 10, 30]
    assert deliveries.outdated == []


def test_a_folder_that_names_the_window_needs_no_window_column(world: World):
    for name in ("numbers", "sums"):
        (world.root / f"tables/{name}.yaml").unlink()
    path = '"in/${DATA_RANGE:dd}"'
    text = TABLE.format(kind="csv", path=path, options=COLUMNS, batch_size=1, ordered="true")
    world.write("tables/events.yaml", text.replace(", window_column: at}", "}"))
    for n in range(1, 5):
        world.write(f"in/{n:02}/a.csv", f"{n},{_time(n)}")
    world.catch_up(now=NOW)
    world.write("in/02/b.csv", f"20,{_time(2)}")
    world.write("in/03/a.csv", f"30,{_time(3)}")
    world.catch_up(now=NOW)
    assert sorted(n for n, _ in world.rows("ods.events")) == [1, 2, 4, 20, 30]
    assert [row["run_trigger"] for row in world.log()] == ["pending"] * 4 + ["source"] * 2


@pytest.mark.parametrize("place", ["a folder", "a bucket"])
def test_a_later_process_reads_the_footers_of_new_files_only(
    world: World, lake: Lake, place: str, monkeypatch: pytest.MonkeyPatch
):
    path = lake.url(world.root / "in") if place == "a bucket" else "in"
    deliveries = Deliveries(world, "parquet", path=path, batch_size=1)
    text = {"project": "world", "storage": lake.settings(world.root)["storage"]}
    world.write("logdriven.yaml", json.dumps(text))
    world.catch_up(now=at("2022-01-04"))
    footers._known.clear()
    opened = []
    read = footers._read_footer
    monkeypatch.setattr(
        footers,
        "_read_footer",
        lambda file, form: opened.append(Path(file.path).stem) or read(file, form),
    )
    deliveries.deliver("05", (5, _time(4)))
    assert deliveries.run() == [day(4)]
    assert opened == ["05"]
    assert deliveries.numbers == [1, 2, 3, 4, 5]


@pytest.mark.parametrize("kind", ["csv", *rarely("json", "parquet")])
def test_windows_of_an_object_store_read_their_own_files_and_notice_changed_ones(
    world: World, lake: Lake, kind: str
):
    deliveries = Deliveries(world, kind, path=lake.url(world.root / "in"), batch_size=1)
    text = {"project": "world", "storage": lake.settings(world.root)["storage"]}
    world.write("logdriven.yaml", json.dumps(text))
    world.catch_up(now=at("2022-01-03"))
    (rows,) = world.runner.run_log.ask(
        lambda conn: audits.read_source_rows(conn, ["ods.events"], with_files=True)
    )
    assert sorted(file.total for file in rows.files) == [1, 1, 1, 1]
    assert deliveries.outdated == []
    deliveries.deliver("02", (20, _time(2)), (21, _time(2)))
    # No listing is made for a plan; the window of the third day notices the change.
    assert deliveries.outdated == []
    assert deliveries.run() == [day(3), day(4), day(2)]
    assert deliveries.numbers == [1, 3, 4, 20, 21]
    assert (deliveries.outdated, deliveries.run()) == ([], [])
    file = world.root / f"in/02.{kind}"
    earlier = file.stat()
    file.unlink()
    deliveries.deliver("02", (22, _time(2)), (23, _time(2)))
    os.utime(file, ns=(earlier.st_mtime_ns, earlier.st_mtime_ns))  # S3 lists times in seconds
    assert file.stat().st_size == earlier.st_size
    assert deliveries.run(at("2022-01-06")) == [day(5), day(2)]
    assert deliveries.numbers == [1, 3, 4, 22, 23]
