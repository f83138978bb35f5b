"""Columns that have different types in the Parquet or ORC files of one source."""

from collections.abc import Mapping, Sequence
from datetime import datetime, time
from decimal import Decimal
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest
from pyarrow import orc, parquet
from pyspark.sql.types import IntegerType, LongType, StructField, StructType

from logdriven_dagster.engine.sources.files.typed.footers import Footer, footers
from logdriven_dagster.engine.sources.files.typed.held_types import UNION, Array, Struct
from logdriven_dagster.engine.sources.files.typed.reading import plan_reading
from logdriven_dagster.engine.storage.data_files import DataFile
from logdriven_dagster.errors import TerminalStepError
from tests.engine.laboratory import Lab
from tests.engine.sources.files.loading import load, refused

AT = datetime(2022, 1, 1, 3)
STRUCT = pa.struct([("a", pa.int32())])
WIDER: dict[str, tuple[tuple[pa.DataType, Any], tuple[pa.DataType, Any], tuple[Any, Any]]] = {
    "byte_long": ((pa.int8(), -5), (pa.int64(), 2**60), (-5, 2**60)),
    "int_long": ((pa.int32(), 5), (pa.int64(), 2**40), (5, 2**40)),
    "unsigned_int": ((pa.uint32(), 2**32 - 1), (pa.int32(), -1), (2**32 - 1, -1)),
    "unsigned_long": (
        (pa.uint64(), 2**64 - 1),
        (pa.int64(), -1),
        (Decimal(2**64 - 1), Decimal(-1)),
    ),
    "float_double": ((pa.float32(), 1.5), (pa.float64(), 0.1), (1.5, 0.1)),
    "int_float": ((pa.int32(), 2**31 - 1), (pa.float32(), 0.5), (2.0**31 - 1, 0.5)),
    "digits": (
        (pa.decimal128(9, 2), Decimal("1234567.89")),
        (pa.decimal128(18, 4), Decimal("1.0001")),
        (Decimal("1234567.8900"), Decimal("1.0001")),
    ),
    "byte_decimal": (
        (pa.int8(), -128),
        (pa.decimal128(5, 1), Decimal("1.5")),
        (Decimal("-128.0"), Decimal("1.5")),
    ),
    "null_text": ((pa.null(), None), (pa.string(), "x"), (None, "x")),
    "null_int_text": ((pa.int32(), None), (pa.string(), "x"), (None, "x")),
    "null_text_long": ((pa.string(), None), (pa.int64(), 2**40), (None, 2**40)),
    "null_time": ((pa.int32(), None), (pa.timestamp("us"), AT), (None, AT)),
    "null_day": ((pa.string(), None), (pa.date32(), AT.date()), (None, AT.date())),
    "null_flag": ((pa.null(), None), (pa.bool_(), True), (None, True)),
    "null_list": ((pa.null(), None), (pa.list_(pa.string()), ["x"]), (None, ["x"])),
    "null_struct": ((pa.int32(), None), (STRUCT, {"a": 1}), (None, {"a": 1})),
    "null_map": (
        (pa.null(), None),
        (pa.map_(pa.string(), STRUCT), [("k", {"a": 1})]),
        (None, {"k": {"a": 1}}),
    ),
    "struct": (
        (STRUCT, {"a": 1}),
        (pa.struct([("a", pa.int64()), ("b", pa.string())]), {"a": 2**40, "b": "x"}),
        ({"a": 1, "b": None}, {"a": 2**40, "b": "x"}),
    ),
    "list": (
        (pa.list_(pa.float32()), [1.5, None]),
        (pa.list_(pa.float64()), [0.1]),
        ([1.5, None], [0.1]),
    ),
    "nulls_in_list": (
        (pa.list_(pa.null()), [None, None]),
        (pa.list_(pa.string()), ["x"]),
        ([None, None], ["x"]),
    ),
    "ints_in_list": (
        (pa.list_(pa.int32()), [None, None]),
        (pa.list_(STRUCT), [{"a": 1}]),
        ([None, None], [{"a": 1}]),
    ),
    "map": (
        (pa.map_(pa.string(), pa.int8()), [("k", 1)]),
        (pa.map_(pa.string(), pa.decimal128(9, 2)), [("k", Decimal("1.50"))]),
        ({"k": Decimal("1.00")}, {"k": Decimal("1.50")}),
    ),
    "nanoseconds": ((pa.timestamp("ns"), AT), (pa.timestamp("ms"), AT), (AT, AT)),
    "clock": (
        (pa.time64("ns"), 3_600_000_000_001),
        (pa.time32("ms"), time(23, 59, 59, 999000)),
        ("01:00:00.000000001", "23:59:59.999"),
    ),
}


def write(path: Path, columns: Mapping[str, pa.Array]) -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    module: Any = parquet if path.suffix == ".parquet" else orc
    module.write_table(pa.table(dict(columns)), path)
    return str(path)


def rows(lab: Lab, **fields: Any) -> list[dict[str, Any]]:
    load(lab, {"type": "parquet", "path": "in", **fields})
    found = lab.engine.read("ods.t").orderBy("n").collect()
    return [row.asDict(recursive=True) for row in found]


@pytest.mark.connect
def test_a_column_of_several_types_is_read_as_one_that_holds_all_values(lab: Lab):
    for number in (0, 1):
        kinds: Any = {name: case[number] for name, case in WIDER.items()}
        columns = {name: pa.array([value], kind) for name, (kind, value) in kinds.items()}
        given = {"n": pa.array([number]), **columns}
        write(lab.root / f"in/part={number}/{number}.parquet", given)
        write(lab.root / f"in/part={number}/more.parquet", given)
    first, again, second, last = rows(lab)
    expected = [{name: case[2][number] for name, case in WIDER.items()} for number in (0, 1)]
    assert first == again == {"n": 0, **expected[0], "part": 0}
    assert second == last == {"n": 1, **expected[1], "part": 1}


def test_types_without_one_for_all_values_are_refused_with_both_files(lab: Lab):
    one = write(lab.root / "in/1.parquet", {"n": pa.array([1]), "v": pa.array([7])})
    other = write(lab.root / "in/2.parquet", {"n": pa.array([2]), "v": pa.array(["x"])})
    problem = refused(lab, {"type": "parquet", "path": "in"})
    assert (
        f"the column v is bigint in {one} and string in {other}, which no single type reads"
        in problem
    )
    line = 'columns: "n BIGINT, v STRING"'
    assert f"write {line}, and CAST in the query" in problem
    assert rows(lab, columns="n BIGINT, v STRING") == [{"n": 1, "v": "7"}, {"n": 2, "v": "x"}]


def test_each_of_several_types_without_one_for_all_values_is_named_with_its_file(lab: Lab):
    kinds = (pa.int32(), pa.int64(), pa.float64())
    paths = [
        write(lab.root / f"in/{number}.parquet", {"v": pa.array([7], kind)})
        for number, kind in enumerate(kinds)
    ]
    problem = refused(lab, {"type": "parquet", "path": "in"})
    assert f"int in {paths[0]}, bigint in {paths[1]} and double in {paths[2]}, which" in problem


def test_a_single_value_and_a_nested_one_are_refused_with_both_files(lab: Lab):
    one = write(lab.root / "in/1.parquet", {"v": pa.array([7])})
    other = write(lab.root / "in/2.parquet", {"v": pa.array([{"a": 1}], STRUCT)})
    problem = refused(lab, {"type": "parquet", "path": "in"})
    assert f"the column v is a single value in {one} and a struct in {other}" in problem


def test_list_views_are_lists_and_shift_no_other_column(tmp_path: Path):
    """A list view of structs counted as one leaf, so that the next column got another kind."""
    pair = pa.struct([("a", pa.int64()), ("b", pa.string())])
    for number, make in enumerate((pa.list_view, pa.large_list_view)):
        columns = {"v": pa.array([[]], make(pair)), "u": pa.array([1], pa.uint8())}
        path = write(tmp_path / f"{number}.parquet", columns)
        held = dict(footers_of(path)[0].columns.fields)
        assert held["v"] == Array(Struct((("a", "bigint"), ("b", "string"))))
        assert held["u"] == "unsigned tinyint"


def test_periods_of_pandas_are_refused_unless_columns_asks_for_their_numbers(tmp_path: Path):
    """The number of a period has a meaning only with its frequency, which Spark does not read."""
    periods = pd.Series(pd.period_range("2022-01", periods=2, freq="M"))
    path = tmp_path / "f.parquet"
    pd.DataFrame({"n": [1, 2], "v": periods}).to_parquet(path, engine="pyarrow")
    found = footers_of(path)
    with pytest.raises(
        TerminalStepError, match=r'f\.parquet: the column v is a period, .*"n BIGINT, v BIGINT"'
    ):
        plan_reading(found, None, missing="")
    fields = [StructField(name, LongType()) for name in ("n", "v")]
    plan_reading(found, StructType(fields), missing="")


def footers_of(path: str | Path) -> Sequence[Footer]:
    stat = Path(path).stat()
    return footers([DataFile(str(path), stat.st_size, stat.st_mtime_ns)], "parquet")


def test_files_with_a_union_are_refused_whichever_columns_are_declared():
    """Spark 4.3 cannot parse the types of such a file, also where another column is asked for."""
    held = Struct((("n", "int"), ("v", Array(UNION))))
    found = [Footer("f.orc", held, files=(DataFile("f.orc", 1, 1),), form="orc")]
    for columns in (None, StructType([StructField("n", IntegerType())])):
        with pytest.raises(
            TerminalStepError, match=r"f\.orc: the column v\.element is a union, and"
        ):
            plan_reading(found, columns, missing="")
