"""Every type of Arrow, written by PyArrow to Parquet: read exactly, or refused by name."""

import re
import struct
from collections.abc import Callable, Mapping, Sequence
from datetime import date, datetime, time, timezone
from decimal import Decimal
from itertools import count
from typing import Any
from uuid import UUID

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from pyarrow import parquet

from logdriven_dagster.errors import TerminalStepError
from tests.builders import day
from tests.engine.laboratory import Lab
from tests.random_examples import examples

Convert = Callable[[Any], Any]
NUMBERS = count()
EPOCH = datetime(1970, 1, 1)


def whole(bits: int, *, signed: bool = True) -> st.SearchStrategy[int]:
    low, high = (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) if signed else (0, 2**bits - 1)
    return st.integers(low, high) | st.sampled_from([low, 0, high])


def decimals(precision: int, scale: int) -> st.SearchStrategy[Decimal]:
    most = 10**precision - 1
    return st.integers(-most, most).map(lambda n: Decimal(n).scaleb(-scale))


def clock(units: int) -> Convert:
    def text(number: int) -> str:
        seconds, rest = divmod(number, units)
        fraction = f".{rest:0{len(str(units)) - 1}}".rstrip("0") if rest else ""
        return f"{time(seconds // 3600, seconds // 60 % 60, seconds % 60)}{fraction}"

    return text


def half(value: float) -> float:
    return float(struct.unpack("<e", struct.pack("<e", value))[0])


def same(value: Any) -> Any:
    return value


def as_utc(value: datetime) -> datetime:
    """A time with a zone, as rows of Spark hold it: by the clock of the process."""
    return value.replace(tzinfo=timezone.utc).astimezone().replace(tzinfo=None)


floats = st.sampled_from([0.0, -0.0, 1.5, float("inf"), float("-inf"), 5.960464477539063e-08])
texts = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=4)
days = st.dates(date(1, 1, 2), date(9999, 12, 30))
micros = st.datetimes(datetime(1, 1, 2), datetime(9999, 12, 30))
nanos = st.datetimes(datetime(1700, 1, 1), datetime(2200, 1, 1))
millis = micros.map(lambda at: at.replace(microsecond=at.microsecond // 1000 * 1000))
seconds = micros.map(lambda at: at.replace(microsecond=0))
KINDS: Mapping[str, tuple[pa.DataType, st.SearchStrategy[Any], Convert]] = {
    "flag": (pa.bool_(), st.booleans(), same),
    **{f"int{n}": (getattr(pa, f"int{n}")(), whole(n), same) for n in (8, 16, 32, 64)},
    **{
        f"uint{n}": (
            getattr(pa, f"uint{n}")(),
            whole(n, signed=False),
            Decimal if n == 64 else same,
        )
        for n in (8, 16, 32, 64)
    },
    "half": (pa.float16(), st.floats(width=16, allow_nan=False), half),
    "single": (pa.float32(), st.floats(width=32, allow_nan=False) | floats, same),
    "double": (pa.float64(), st.floats(allow_nan=False) | floats, same),
    "text": (pa.string(), texts, same),
    "long_text": (pa.large_string(), texts, same),
    "text_view": (pa.string_view(), texts, same),
    "bytes": (pa.binary(), st.binary(max_size=4), same),
    "long_bytes": (pa.large_binary(), st.binary(max_size=4), same),
    "four_bytes": (pa.binary(4), st.binary(min_size=4, max_size=4), same),
    "uuid": (pa.uuid(), st.uuids().map(lambda each: each.bytes), lambda b: str(UUID(bytes=b))),
    "cents": (pa.decimal128(9, 2), decimals(9, 2), same),
    "digits": (pa.decimal128(38, 10), decimals(38, 10), same),
    "small": (pa.decimal256(20, 3), decimals(20, 3), same),
    "day": (pa.date32(), days, same),
    "day64": (pa.date64(), days, same),
    "at_s": (pa.timestamp("s"), seconds, same),
    "at_ms": (pa.timestamp("ms"), millis, same),
    "at_us": (pa.timestamp("us"), micros, same),
    "at_ns": (pa.timestamp("ns"), nanos, same),
    "in_ms": (pa.timestamp("ms", "UTC"), millis, as_utc),
    "in_us": (pa.timestamp("us", "Europe/Berlin"), micros, as_utc),
    "in_ns": (pa.timestamp("ns", "UTC"), nanos, as_utc),
    "clock_s": (pa.time32("s"), st.integers(0, 86_399), clock(1)),
    "clock_ms": (pa.time32("ms"), st.integers(0, 86_399_999), clock(10**3)),
    "clock_us": (pa.time64("us"), st.integers(0, 86_400 * 10**6 - 1), clock(10**6)),
    "clock_ns": (pa.time64("ns"), st.integers(0, 86_400 * 10**9 - 1), clock(10**9)),
    "nothing": (pa.null(), st.none(), same),
}
"""Name → type, values as PyArrow takes them, and what each is in a row of Spark."""
REFUSED: Mapping[str, tuple[pa.DataType, Any, str]] = {
    **{f"lasts_{u}": (pa.duration(u), 5, f"duration[{u}]") for u in ("s", "ms", "us", "ns")},
    "wide": (pa.decimal256(50, 2), Decimal("1.50"), "decimal(50,2)"),
}


def made(values: Sequence[Any], shape: str, kind: pa.DataType) -> pa.Array | None:
    """A nested array, or None where PyArrow 26 makes or writes none of these values."""
    # It makes nested arrays of the types that extension types are stored as.
    stored = shaped(getattr(kind, "storage_type", kind))[shape]
    try:
        array = pa.array(nested(values, shape), stored).cast(shaped(kind)[shape])
        array.validate()
        parquet.write_table(pa.table({"v": array}), pa.BufferOutputStream())
    except pa.ArrowException:
        return None
    return array


def shaped(kind: pa.DataType) -> Mapping[str, pa.DataType]:
    pair = pa.struct([("v", kind), ("n", pa.int32())])
    return {
        "list": pa.list_(kind),
        "long_list": pa.large_list(kind),
        "struct": pair,
        "map": pa.map_(pa.string(), kind),
        "structs": pa.list_(pair),
        "lists": pa.list_(pa.list_(kind)),
    }


def nested(values: Sequence[Any], shape: str) -> list[Any]:
    match shape:
        case "list" | "long_list":
            return [list(values), [], None]
        case "struct":
            return [{"v": values[0], "n": 1}, {"v": None, "n": None}, None]
        case "map":
            return [[("a", values[0]), ("b", values[-1])], [], None]
        case "structs":
            return [[{"v": value, "n": 1} for value in values], [None], None]
        case _:
            return [[list(values), None], [[]], None]


def read_back(value: Any, convert: Convert) -> Any:
    """The value that a nested one becomes in a row of Spark."""
    if value is None:
        return None
    if isinstance(value, list):
        pairs = value and isinstance(value[0], tuple)
        if pairs:
            return {key: each if each is None else convert(each) for key, each in value}
        return [read_back(each, convert) for each in value]
    if isinstance(value, dict):
        return {"v": read_back(value["v"], convert), "n": value["n"]}
    return convert(value)


def differences(
    lab: Lab, columns: Mapping[str, pa.Array], expected: Mapping[str, Any]
) -> list[Any]:
    """What one window reads otherwise than it is in the file."""
    name = f"ods.t{next(NUMBERS)}"
    path = lab.root / name / "f.parquet"
    path.parent.mkdir()
    rows = {"row": pa.array([0, 1, 2]), **columns}
    parquet.write_table(pa.table(rows), path, use_dictionary=next(NUMBERS) % 4 != 1)
    source = {"type": "parquet", "path": name}
    lab.table(name, {"source": source, "target": {"type": "parquet"}})
    lab.run(name, day(1))
    frame = lab.engine.read(name).orderBy("row")
    read = [row.asDict(recursive=True) for row in frame.collect()]
    found = []
    for column, values in expected.items():
        got = [plain(row[column]) for row in read]
        if repr(got) != repr(list(map(plain, values))):
            found.append((column, got, values))
    return found


def plain(value: Any) -> Any:
    """A value as it compares with another one: times in UTC, bytes as such."""
    match value:
        case dict():
            return {key: plain(each) for key, each in value.items()}
        case list():
            return [plain(each) for each in value]
        case bytearray():
            return bytes(value)
        case datetime() if value.tzinfo:
            return value.astimezone(timezone.utc)
        case datetime():
            return value.replace(fold=0)
        case Decimal():
            return format(value, "f")
    return value


drawn = st.fixed_dictionaries(
    {
        name: st.lists(st.none() | values, min_size=3, max_size=3)
        for name, (_, values, _) in KINDS.items()
    }
)


@pytest.mark.usefixtures("long")
@settings(
    max_examples=examples(3),
    phases=[Phase.generate],
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(drawn=drawn, turn=st.integers(0, 5))
def test_every_type_of_arrow_is_read_exactly_nested_too(
    lab: Lab, drawn: Mapping[str, list[Any]], turn: int
):
    lab.settings["timezone"] = "UTC"
    columns, expected = {}, {}
    for number, (name, values) in enumerate(drawn.items()):
        kind, _, convert = KINDS[name]
        columns[name] = pa.array(values, kind)
        expected[name] = [read_back(value, convert) for value in values]
        shapes = shaped(kind)
        shape = list(shapes)[(number + turn) % len(shapes)]
        if (array := made(values, shape, kind)) is None:
            continue
        inner = nested(values, shape)
        columns[f"{name}_{shape}"] = array
        expected[f"{name}_{shape}"] = [
            {} if shape == "map" and value == [] else read_back(value, convert) for value in inner
        ]
    assert differences(lab, columns, expected) == []


@pytest.mark.usefixtures("long")
def test_other_types_of_arrow_are_refused_with_file_column_type_and_fix(lab: Lab):
    for name, (kind, value, held) in REFUSED.items():
        for shape, nested_kind in {"": kind, **shaped(kind)}.items():
            inner = nested([value], shape) if shape else [value]
            path = lab.root / f"{name}{shape}" / "f.parquet"
            path.parent.mkdir()
            parquet.write_table(pa.table({"v": pa.array(inner, nested_kind)}), path)
            source = {"type": "parquet", "path": path.parent.name}
            lab.table(f"ods.{name}{shape}", {"source": source, "target": {"type": "parquet"}})
            with pytest.raises(TerminalStepError) as caught:
                lab.run(f"ods.{name}{shape}", day(1))
            start = rf"{re.escape(str(path))}: the column v\S* is a {re.escape(held)}, which Spark"
            assert re.match(
                rf'{start} cannot read; write columns: "v [^"]+", which', str(caught.value)
            )
