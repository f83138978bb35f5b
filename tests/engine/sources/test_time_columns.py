"""Sources whose times are numbers or bare texts: each row is in its window, and no more is read."""

import random
from collections.abc import Callable
from datetime import datetime, timezone
from fractions import Fraction
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import sqlalchemy as sa
from deltalake import write_deltalake
from pyiceberg.schema import Schema
from pyiceberg.types import LongType, NestedField, StringType

from logdriven_dagster.config.models.types.time_columns import TimeColumn
from logdriven_dagster.engine.queries.window_values import window_values
from logdriven_dagster.engine.sources.readers import Reading, read_source
from logdriven_dagster.engine.spark.session import fresh_session
from logdriven_dagster.errors import TerminalStepError
from tests.builders import day
from tests.engine.foreign_tables import append, data_files, foreign_table
from tests.engine.laboratory import Lab
from tests.engine.sources.time_values import (
    BOUNDS,
    COLUMNS,
    FAR,
    PATTERNS,
    UNITS,
    WINDOWS,
    ZONE,
    values,
)


def meant(name: str, value: Any) -> Fraction | None:
    """Return the instant that a value means, in seconds; None if it means none."""
    _, meaning = COLUMNS[name]
    if value is None or (isinstance(value, float) and not abs(value) < FAR):
        return None
    if unit := meaning.get("unit"):
        return Fraction(value) / UNITS[unit]
    text, pattern = str(value).removesuffix(".0"), PATTERNS[meaning["format"]]
    try:
        clock = datetime.strptime(text, pattern)
    except ValueError:
        return None
    instant = clock.replace(tzinfo=ZONE).astimezone(timezone.utc)
    is_shown = instant.astimezone(ZONE).replace(tzinfo=None) == clock
    return Fraction(instant.timestamp()) if is_shown and clock.strftime(pattern) == text else None


def held(seconds: Fraction | None) -> int | None:
    """Return the number of the window that holds an instant, by looking at all of them."""
    ranges = enumerate(pairwise(BOUNDS))
    known = seconds is not None
    return next((n for n, (low, end) in ranges if known and low <= seconds < end), None)  # type: ignore[operator]


def test_each_value_is_placed_as_the_instant_that_it_means(lab: Lab):
    lab.settings["timezone"] = str(ZONE)
    with fresh_session(lab.spark, lab.project) as spark:
        place_and_compare(spark, lab.root)


def place_and_compare(spark: Any, folder: Path) -> None:
    """Place random values of every column in one query; each is where its instant lies."""
    chance = random.Random(41)
    queries, expected = [], []
    for name, (kind, meaning) in COLUMNS.items():
        made = values(name, chance)
        path = folder / f"{name}.parquet"
        pq.write_table(pa.table({"v": pa.array(made, kind), "n": range(len(made))}), path)
        frame = spark.read.parquet(str(path))
        placed = window_values(TimeColumn(name="v", **meaning), frame, ZONE)
        inside = [f"WHEN {placed.lies_within(each)} THEN {n}" for n, each in enumerate(WINDOWS)]
        queries.append(
            frame.select(
                "n",
                placed_as(f"CASE {' '.join(inside)} END", "held"),
                placed.index(WINDOWS).alias("number"),
                placed_as(f"{placed.placed} IS NOT NULL", "placed"),
            ).selectExpr(f"'{name}' AS name", "*")
        )
        expected += [(name, n, value) for n, value in enumerate(made)]
    union = queries[0]
    for each in queries[1:]:
        union = union.union(each)
    found = {(row["name"], row["n"]): row for row in union.collect()}
    for name, n, value in expected:
        row, seconds = found[name, n], meant(name, value)
        window = held(seconds)
        assert (row["held"], row["placed"]) == (window, seconds is not None), (name, value)
        assert window is None or row["number"] == window, (name, value)


def placed_as(text: str, name: str) -> Any:
    from logdriven_dagster.engine.spark import functions as sf

    return sf.expr(text).alias(name)


PARQUET = {"type": "parquet"}
READ = {"epoch": {"name": "ts", "unit": "epoch_ms"}, "text": {"name": "day", "format": "yyyyMMdd"}}


def row(n: int) -> dict[str, Any]:
    """A row of a day of January, with its time in two forms."""
    start = datetime(2022, 1, n, tzinfo=timezone.utc).timestamp()
    return {"n": n, "ts": round(start) * 1000 + 5, "day": f"202201{n:02}"}


def of_delta(lab: Lab) -> Callable[[], dict[str, Any]]:
    folder = lab.root / "shared"
    for n in (1, 2, 3):
        write_deltalake(folder, pa.Table.from_pylist([row(n)]), mode="append")

    def without_others() -> dict[str, Any]:
        for file in folder.glob("*.parquet"):
            if pq.read_table(file).column("n").to_pylist() != [2]:
                file.unlink()
        return {"type": "delta", "path": "shared"}

    return without_others


def of_iceberg(lab: Lab) -> Callable[[], dict[str, Any]]:
    fields = (NestedField(1, "n", LongType()), NestedField(2, "ts", LongType()))
    table = foreign_table(lab, Schema(*fields, NestedField(3, "day", StringType())), name="a.b")
    for n in (1, 2, 3):
        append(table, row(n))

    def without_others() -> dict[str, Any]:
        for file in data_files(table)[::2]:
            table.io.delete(file.file_path)
        return {"type": "iceberg", "name": "a.b"}

    return without_others


def of_folders(lab: Lab) -> Callable[[], dict[str, Any]]:
    for n in (1, 2, 3):
        folder = lab.root / f"shared/day={row(n)['day']}/ts={row(n)['ts']}"
        folder.mkdir(parents=True)
        pq.write_table(pa.table({"n": [n]}), folder / "part.parquet")

    def without_others() -> dict[str, Any]:
        for n in (1, 3):
            for file in lab.root.glob(f"shared/day={row(n)['day']}/*/part.parquet"):
                file.write_bytes(b"PAR1 is no more")
        return {"type": "parquet", "path": "shared", "columns": "n BIGINT, ts BIGINT, day STRING"}

    return without_others


@pytest.mark.parametrize("kind", ["delta", "iceberg", "folders"])
def test_files_of_other_windows_are_not_opened(lab: Lab, kind: str):
    lab.settings["timezone"] = "UTC"
    source = {"delta": of_delta, "iceberg": of_iceberg, "folders": of_folders}[kind](lab)()
    for form, column in READ.items():
        lab.table(f"ods.{form}", {"source": {**source, "window_column": column}, "target": PARQUET})
        lab.run(f"ods.{form}", day(2))
        assert [found.n for found in lab.engine.read(f"ods.{form}").collect()] == [2]


@pytest.mark.sampled
def test_a_database_is_asked_for_the_range_of_the_window(
    lab: Lab, database_url: sa.URL, capsys: pytest.CaptureFixture[str]
):
    lab.settings["timezone"] = "UTC"
    lab.settings["connections"] = {
        "db": {"url": database_url.render_as_string(hide_password=False)}
    }
    engine = sa.create_engine(database_url, poolclass=sa.NullPool)
    with engine.begin() as conn:
        conn.exec_driver_sql("CREATE TABLE t (n INT, ts BIGINT, day VARCHAR(8), num INT)")
        for n in (1, 2, 3):
            insert = sa.text("INSERT INTO t VALUES (:n, :ts, :day, :num)")
            conn.execute(insert, {**row(n), "num": int(row(n)["day"])})
        conn.exec_driver_sql("INSERT INTO t VALUES (9, NULL, '2022011x', 2)")
    columns = [*READ.values(), {"name": "num", "format": "yyyyMMdd"}]
    for n, column in enumerate(columns):
        source = {"type": "jdbc", "connection": "db", "table": "t", "window_column": column}
        lab.table(f"ods.t{n}", {"source": source, "target": PARQUET})
        project = lab.project
        (step,) = project.table(f"ods.t{n}").steps
        run = lab.window_run(f"ods.t{n}", day(2))
        assert step.source is not None
        frame = read_source(Reading(project, lab.spark, run, lambda: None), step.source)
        assert [found[0] for found in frame.select("n").collect()] == [2]
        frame.explain()
        shown, name = capsys.readouterr().out, column["name"]
        pushed = shown[shown.index("PushedFilters") :]
        assert f"GreaterThanOrEqual({name}" in pushed
        assert f"LessThan({name}" in pushed


def test_types_without_a_time_are_refused_with_the_fix(lab: Lab):
    lab.settings["timezone"] = "UTC"
    pq.write_table(
        pa.table({"n": [1], "ts": [1], "at": [datetime(2022, 1, 2)], "day": ["a"]}),
        lab.root / "f.parquet",
    )
    found = []
    for column in ("n", {"name": "day", "unit": "epoch_s"}, {"name": "at", "unit": "epoch_s"}):
        source = {"type": "parquet", "path": "f.parquet", "window_column": column}
        lab.table("ods.t", {"source": source, "target": PARQUET})
        with pytest.raises(TerminalStepError) as error:
            lab.run("ods.t", day(2))
        found.append(str(error.value))
    assert "write window_column: {name: n, unit: epoch_s}" in found[0]
    assert "window_column day is string; unit: epoch_s is only for numbers" in found[1]
    assert "write window_column: at" in found[2]
