"""ORC files, whose footers do not record the digits of timestamps and columns of NULL."""

from collections.abc import Mapping
from datetime import date, datetime, timezone
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import orc

from logdriven_dagster.engine.sources.files.typed import orc_values
from logdriven_dagster.engine.sources.files.typed.footers import footers
from logdriven_dagster.engine.sources.files.typed.held_types import leaves
from logdriven_dagster.engine.sources.known_sources import fingerprint
from logdriven_dagster.engine.storage.data_files import DataFile
from logdriven_dagster.errors import TerminalStepError
from tests.builders import day
from tests.engine.laboratory import Lab
from tests.engine.sources.files.loading import TARGET, load, refused

NS = pa.timestamp("ns")
ORC = {"type": "orc", "path": "in"}
NOON = 1_641_038_400_000_000_000
"""2022-01-01 12:00:00, in nanoseconds since 1970."""
AT = datetime(2022, 1, 1, 12)


def write(folder: Path, name: str, columns: Mapping[str, pa.Array], **options: Any) -> str:
    path = folder / "in" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    orc.write_table(pa.table(dict(columns)), path, **options)
    return str(path)


def kinds(path: str) -> dict[str, str]:
    files = fingerprint(path)
    assert files is not None
    (footer,) = footers([DataFile(*each) for each in files], "orc")
    return {".".join(leaf): kind for leaf, kind in leaves(footer.columns)}


def test_the_digits_of_each_timestamp_leaf_are_found(tmp_path: Path):
    pair = pa.struct([("whole", NS), ("fine", NS)])
    texts = pa.map_(pa.string(), NS)
    fine, whole = NOON + 1, NOON + 1000
    path = write(
        tmp_path,
        "f.orc",
        {
            "n": pa.array([1, 2, 3]),
            "whole": pa.array([whole, None, NOON], NS),
            "fine": pa.array([whole, None, fine], NS),
            "zoned": pa.array([whole, None, fine], pa.timestamp("ns", "UTC")),
            "s": pa.array([{"whole": whole, "fine": None}, None, {"fine": fine}], pair),
            "l": pa.array([[whole, None], [], [fine]], pa.list_(NS)),
            "m": pa.array([[("a", whole)], None, [("b", fine), ("c", None)]], texts),
            "far": pa.array([AT, datetime(9999, 12, 31), None], pa.timestamp("us")),
            "empty": pa.array([None] * 3, NS),
        },
    )
    ordinary, nanoseconds = "timestamp of ORC", "timestamp of nanoseconds in ORC"
    assert kinds(path) == {
        "n": "bigint",
        "whole": ordinary,
        "fine": nanoseconds,
        "zoned": nanoseconds,
        "s.whole": ordinary,
        "s.fine": nanoseconds,
        "l.element": nanoseconds,
        "m.key": "string",
        "m.value": nanoseconds,
        "far": ordinary,  # PyArrow writes it in microseconds, and cannot read it
        "empty": ordinary,
    }


def test_the_values_of_a_file_are_inspected_once_per_version(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    inspected = []
    inspect = orc_values._leaves_where
    monkeypatch.setattr(
        orc_values, "_leaves_where", lambda *given: inspected.append(given) or inspect(*given)
    )
    path = write(tmp_path, "f.orc", {"v": pa.array([NOON], NS)})
    assert kinds(path) == kinds(path) == {"v": "timestamp of ORC"}
    assert len(inspected) == 1
    write(tmp_path, "f.orc", {"v": pa.array([NOON, NOON + 1], NS)})
    assert kinds(path) == {"v": "timestamp of nanoseconds in ORC"}
    assert len(inspected) == 2


@pytest.mark.usefixtures("long")
def test_timestamps_of_orc_are_read_to_microseconds_where_nothing_is_lost(lab: Lab):
    lab.settings["timezone"] = "America/New_York"
    twice = datetime(2022, 11, 6, 1, 30)
    values = [AT, datetime(2261, 12, 31, 23, 59, 59, 999999), datetime(1970, 1, 2, 0, 0, 0, 1)]
    values += [twice, datetime(1960, 1, 1), datetime(1900, 1, 2)]
    given = [*pa.array(values, pa.timestamp("us")).cast(NS), pa.scalar(NOON + 1, NS)]
    columns = {
        "n": pa.array(range(len(given))),
        "v": pa.array(given, NS),
        "l": pa.array([[each, None] for each in given], pa.list_(NS)),
        "s": pa.array([{"t": each} for each in given], pa.struct([("t", NS)])),
    }
    path = write(lab.root, "f.orc", columns)
    assert set(kinds(path).values()) == {"bigint", "timestamp of nanoseconds in ORC"}
    texts = "CAST(v AS STRING) v, CAST(l AS STRING) l, CAST(s.t AS STRING) s"
    load(lab, ORC, f"SELECT n, {texts} FROM source WHERE n < {len(values)}")
    assert lab.rows("ods.t") == [
        (n, text, f"[{text}, null]", text) for n, text in enumerate(map(str, values))
    ]


def test_digits_of_orc_that_a_timestamp_would_lose_are_refused_by_row(lab: Lab):
    lab.settings["timezone"] = "UTC"
    hours = [datetime(2022, 1, n, 12) for n in (1, 2, 3)]
    fine = pa.array([NOON, NOON + 86_400_000_000_123, NOON + 2 * 86_400_000_000_000], NS)
    write(lab.root, "f.orc", {"at": pa.array(hours, pa.timestamp("us")), "v": fine})
    seconds = "1641124800.000000123"
    lab.table("ods.t", {"source": {**ORC, "window_column": "at"}, "target": TARGET})
    assert lab.run("ods.t", day(1)).counts.target == 1
    with pytest.raises(TerminalStepError) as caught:
        lab.run("ods.t", day(2))
    problem = f"column v holds {seconds} seconds since 1970, more digits than a TIMESTAMP can store"
    assert f"{problem}; write the column as text" in str(caught.value)
    assert lab.run("ods.t", day(3)).counts.target == 1


def test_old_times_next_to_ones_with_more_digits_are_refused_by_row(lab: Lab):
    """PyArrow and Java write fractions before 1970, and know offsets before 1900, differently."""
    lab.settings["timezone"] = "America/New_York"
    old = int(datetime(1850, 1, 1, tzinfo=timezone.utc).timestamp()) * 1_000_000_000
    columns = {"a": pa.array([NOON + 1, -1_250_000_000], NS), "b": pa.array([NOON + 1, old], NS)}
    write(lab.root, "f.orc", {"n": pa.array([1, 2]), **columns})
    for name, problem in (
        ("a", "a fraction of a second before 1970"),
        ("b", "a timestamp before 1900, next to others"),
    ):
        query = f"SELECT {name} FROM source WHERE n = 2"
        assert f"column {name} holds {problem}" in refused(lab, ORC, query)


def test_times_that_the_clocks_skip_are_refused(lab: Lab):
    """Spark reads them as a time one hour later."""
    lab.settings["timezone"] = "Europe/Berlin"
    skipped = pa.array([datetime(2026, 3, 29, 2, 30), None], pa.timestamp("us"))
    nested = pa.StructArray.from_arrays([skipped], ["t"])
    good = pa.array([datetime(2026, 3, 29, 3, 30), datetime(2026, 10, 25, 2, 30)], skipped.type)
    zoned = skipped.cast(pa.timestamp("us", "UTC"))
    path = write(lab.root, "f.orc", {"good": good, "zoned": zoned, "s": nested})
    problem = f"{path}: column s.t holds 2026-03-29 02:30:00, which the clocks of Europe/Berlin"
    assert problem in refused(lab, ORC)
    columns = {"columns": "good TIMESTAMP, zoned TIMESTAMP"}
    load(lab, ORC | columns, "SELECT CAST(good AS STRING) AS t FROM source")
    assert lab.rows("ods.t") == [("2026-03-29 03:30:00",), ("2026-10-25 02:30:00",)]
    lab.settings["timezone"] = "America/New_York"
    load(lab, ORC, "SELECT CAST(s.t AS STRING) AS t FROM source")
    assert lab.rows("ods.t") == [("2026-03-29 02:30:00",), (None,)]


def test_fractions_before_1970_with_which_java_fails_are_named(lab: Lab):
    half = datetime(1969, 12, 31, 23, 59, 59, 500000)
    us = pa.timestamp("us")
    write(lab.root, "1.orc", {"s": pa.array([{"t": AT}, None], pa.struct([("t", us)]))})
    path = write(lab.root, "2.orc", {"s": pa.array([None, {"t": half}], pa.struct([("t", us)]))})
    problem = f"{path}: column s.t holds a fraction of a second before 1970, which Java libraries"
    assert problem in refused(lab, ORC)


NULLS: dict[str, tuple[tuple[pa.DataType, Any], tuple[pa.DataType, Any], tuple[Any, Any]]] = {
    "int_text": ((pa.int32(), None), (pa.string(), "x"), (None, "x")),
    "double_text": ((pa.float64(), None), (pa.string(), "x"), (None, "x")),
    "text_long": ((pa.string(), None), (pa.int64(), 2**40), (None, 2**40)),
    "double_time": ((pa.float64(), None), (NS, AT), (None, AT)),
    "text_day": ((pa.string(), None), (pa.date32(), date(2022, 1, 1)), (None, date(2022, 1, 1))),
    "int_list": ((pa.int32(), None), (pa.list_(pa.string()), ["x"]), (None, ["x"])),
    "int_struct": ((pa.int32(), None), (pa.struct([("a", pa.int8())]), {"a": 1}), (None, {"a": 1})),
    "in_list": (
        (pa.list_(pa.float64()), [None, None]),
        (pa.list_(pa.string()), ["x"]),
        ([None, None], ["x"]),
    ),
    "int_long": ((pa.int32(), 5), (pa.int64(), 2**40), (5, 2**40)),
    "float_double": ((pa.float32(), 1.1), (pa.float64(), 0.1), (1.100000023841858, 0.1)),
    "int_double": ((pa.int32(), 2**31 - 1), (pa.float64(), 0.5), (2.0**31 - 1, 0.5)),
    "int_decimal": (
        (pa.int16(), -7),
        (pa.decimal128(7, 2), Decimal("1.50")),
        (Decimal("-7.00"), Decimal("1.50")),
    ),
    "digits": (
        (pa.decimal128(9, 2), Decimal("1.25")),
        (pa.decimal128(18, 4), Decimal("1.0001")),
        (Decimal("1.2500"), Decimal("1.0001")),
    ),
}


def test_orc_columns_of_several_types_are_read_as_one_that_holds_all_values(lab: Lab):
    lab.settings["timezone"] = "UTC"
    for number in (0, 1):
        columns: dict[str, pa.Array] = {"n": pa.array([number])}
        for name, case in NULLS.items():
            kind, value = case[number]
            columns[name] = pa.array([value], kind)
        write(lab.root, f"{number}.orc", columns)
    load(lab, ORC)
    read = [row.asDict(recursive=True) for row in lab.engine.read("ods.t").orderBy("n").collect()]
    assert read == [
        {"n": number, **{name: case[2][number] for name, case in NULLS.items()}}
        for number in (0, 1)
    ]


def test_orc_types_without_one_for_all_values_are_refused_with_both_files(lab: Lab):
    one = write(lab.root, "1.orc", {"v": pa.array([7, None])})
    other = write(lab.root, "2.orc", {"v": pa.array(["x"])})
    problem = refused(lab, ORC)
    assert f"the column v is bigint in {one} and string in {other}, which no single" in problem
    assert 'write columns: "v STRING", and CAST in the query' in problem
    load(lab, {**ORC, "columns": "v STRING"})
    assert lab.rows("ods.t") == [("7",), ("x",), (None,)]
