"""A table of Iceberg with many files, and the parts of what it takes to plan a query over it.

Files are copies of one with ten rows, so that there is nothing in them that takes time.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

FIRST = datetime(2020, 1, 1, tzinfo=timezone.utc)
MANIFESTS, FRAME, TASKS, ONE_DAY = (
    "files from manifests, in Python",
    "frame",
    "tasks of the frame",
    "files of one day from manifests, in Python",
)
"""The parts of planning."""

_COMMITS = 10
_FOLDERS = 100
_COPIES = 50_000
"""A file system allows no more than 65,000 links to a file."""


def make(catalog: Any, folder: Path, name: str, number: int) -> str:
    """A table of so many files, one for each hour, committed in ten parts; its name."""
    from pyiceberg.schema import Schema
    from pyiceberg.types import LongType, NestedField, TimestamptzType

    schema = Schema(NestedField(1, "id", LongType()), NestedField(2, "at", TimestamptzType()))
    place = folder / name
    catalog.create_namespace_if_not_exists(name.partition(".")[0])
    table = catalog.create_table(name, schema, location=f"file://{place}")
    paths = list(_copies(place, number, schema))
    for part in range(_COMMITS):
        with table.transaction() as transaction:
            mapping = schema.name_mapping.model_dump_json()
            transaction.set_properties({"schema.name-mapping.default": mapping})
            with transaction.update_snapshot().fast_append() as update:
                for n in range(part * number // _COMMITS, (part + 1) * number // _COMMITS):
                    update.append_data_file(_described(paths[n], n))
    return name


def _copies(folder: Path, number: int, schema: Any) -> Iterator[Path]:
    import pyarrow as pa
    from pyarrow import parquet

    rows = [{"id": n, "at": FIRST} for n in range(10)]
    for n in range(number):
        inside = folder / "data" / f"{n % _FOLDERS}"
        if n < _FOLDERS:
            inside.mkdir(parents=True)
        if n % _COPIES == 0:
            original = inside / f"original-{n}.parquet"
            parquet.write_table(pa.Table.from_pylist(rows, schema.as_arrow()), original)
        path = inside / f"part-{n}.parquet"
        path.hardlink_to(original)
        yield path


def _described(path: Path, n: int) -> Any:
    from pyiceberg.conversions import to_bytes
    from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
    from pyiceberg.typedef import Record
    from pyiceberg.types import TimestamptzType

    at = FIRST + timedelta(hours=n)
    bound = {2: to_bytes(TimestamptzType(), at)}
    return DataFile.from_args(
        content=DataFileContent.DATA,
        file_path=f"file://{path}",
        file_format=FileFormat.PARQUET,
        partition=Record(),
        record_count=10,
        file_size_in_bytes=path.stat().st_size,
        column_sizes={1: 80, 2: 80},
        value_counts={1: 10, 2: 10},
        null_value_counts={1: 0, 2: 0},
        lower_bounds=bound,
        upper_bounds=bound,
    )


class Parts:
    """Seconds of each part of some work."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}

    @contextmanager
    def part(self, name: str) -> Iterator[None]:
        """Time what is done inside."""
        began = time.perf_counter()
        yield
        self.seconds[name] = self.seconds.get(name, 0.0) + time.perf_counter() - began


def planned(load: Callable[[], Any], spark: Any, parts: Parts) -> int:
    """Plan a query over all rows of a table to its last task, which does not run; the tasks."""
    from logdriven_dagster.engine.iceberg.rows import rows_of
    from logdriven_dagster.engine.iceberg.scan import plan

    table = load()
    with parts.part(MANIFESTS):
        tasks = plan(table)
    with parts.part(FRAME):
        frame = rows_of(spark, table, tasks)
    with parts.part(TASKS):
        return int(frame.rdd.getNumPartitions())


def found_for_a_day(load: Callable[[], Any], parts: Parts) -> int:
    """The files of one day in the midst of a table."""
    from logdriven_dagster.engine.iceberg.files import build_window_filter
    from logdriven_dagster.engine.iceberg.scan import plan
    from logdriven_dagster.model.windows import TimeWindow

    table = load()
    day = TimeWindow(FIRST + timedelta(days=100), FIRST + timedelta(days=101))
    with parts.part(ONE_DAY):
        return len(plan(table, build_window_filter(table.schema(), "at", day)))
