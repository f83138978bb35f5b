"""Whatever a frame holds comes back from a target as it was, or is refused by the column's name."""

import io
import json
import math
import re
from collections.abc import Sequence
from datetime import date, datetime, timedelta
from decimal import Decimal
from itertools import count, cycle
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from logdriven_dagster.errors import TerminalStepError
from tests.builders import day
from tests.engine.laboratory import Lab
from tests.engine.targets.round_trips import FEW, INSTANTS, differences

TRICKY = (
    *("", " ", "\t", "\n", "\r\n", "\x00", "\u2028", "é東🜁", "\ufffd"),
    *('"', '""', "'", ",", "a,b", "#", "\\", '\\"', "-"),
    *("NULL", "null", "\\N", "NaN"),
)
TEXT = st.sampled_from(TRICKY) | st.text(max_size=8)
WALL = st.sampled_from([datetime.fromisoformat(text) for text in INSTANTS])
DAYS = [date.min, date(1582, 10, 10), date(2024, 2, 29), date.max]
FLOATS = [0.0, -0.0, 1.5, math.nan, math.inf, -math.inf, 5e-324, 1.7976931348623157e308, 0.1]


def whole(bits: int) -> st.SearchStrategy[int]:
    return st.sampled_from([-(2 ** (bits - 1)), -1, 0, 1, 2 ** (bits - 1) - 1])


def decimals(digits: int, scale: int) -> st.SearchStrategy[Decimal]:
    most = 10**digits - 1
    return st.sampled_from([0, 1, -1, most, -most]).map(lambda n: Decimal(f"{n}E-{scale}"))


TYPES: dict[str, tuple[str, st.SearchStrategy[Any]]] = {
    "flag": ("BOOLEAN", st.booleans()),
    "tiny": ("TINYINT", whole(8)),
    "small": ("SMALLINT", whole(16)),
    "whole": ("INT", whole(32)),
    "long": ("BIGINT", whole(64)),
    "single": ("FLOAT", st.sampled_from([0.0, 1.5, math.nan, math.inf, -math.inf])),
    "double": ("DOUBLE", st.sampled_from(FLOATS)),
    "money": ("DECIMAL(9, 2)", decimals(9, 2)),
    "huge": ("DECIMAL(38, 0)", decimals(38, 0)),
    "fine": ("DECIMAL(38, 38)", decimals(38, 38)),
    "text": ("STRING", TEXT),
    "bytes": ("BINARY", st.binary(max_size=4).map(bytearray)),
    "on_day": (
        "DATE",
        st.sampled_from([date.min, date(1582, 10, 10), date(2024, 2, 29), date.max]),
    ),
    "at": ("TIMESTAMP", WALL),
    "wall": ("TIMESTAMP_NTZ", WALL),
    "lasted": ("INTERVAL DAY TO SECOND", st.sampled_from([timedelta(1, 1, 1), -timedelta(1)])),
    "list": ("ARRAY<STRING>", st.lists(TEXT | st.none(), max_size=3)),
    "struct": ("STRUCT<a: INT, t: STRING>", st.tuples(whole(32) | st.none(), TEXT | st.none())),
    "map": ("MAP<STRING, INT>", st.dictionaries(TEXT, whole(32) | st.none(), max_size=2)),
    "numbered": ("MAP<INT, STRING>", st.dictionaries(whole(32), TEXT, max_size=2)),
    "deep": ("ARRAY<STRUCT<at: TIMESTAMP>>", st.lists(st.tuples(WALL), max_size=2)),
}
"""Column → its type, and values of it."""

ROWS = st.lists(
    st.fixed_dictionaries({name: values | st.none() for name, (_, values) in TYPES.items()}),
    min_size=12,
    max_size=12,
)
TARGETS = ("iceberg", "delta", "parquet", "orc", "csv", "json")
REFUSED = {
    "iceberg": {"lasted"},
    "delta": {"lasted"},
    "parquet": set[str](),
    "orc": {"on_day", "at", "wall", "deep"},
    "csv": {"bytes", "list", "struct", "map", "numbered", "deep"},
    "json": {"numbered"},
}
"""Target → the columns that it cannot hold, or not with these values."""

OF_VALUES = {"on_day", "at", "wall", "deep"}
"""Columns that are refused for some of their values."""


def written(
    lab: Lab, table: str, target: str, rows: Sequence[dict[str, Any]], refused: set[str]
) -> Any:
    """The rows as a frame, after they were published; `refused` learns what had to be left out."""
    lab.table(table, {"sql": "SELECT 1", "target": {"type": target, "mode": "overwrite"}})
    (step,) = lab.project.table(table).steps
    names = ["n", *TYPES]
    while True:
        kinds = ", ".join(f"{name} {'INT' if name == 'n' else TYPES[name][0]}" for name in names)
        values = [(n, *(row[name] for name in names[1:])) for n, row in enumerate(rows)]
        frame = lab.spark.createDataFrame(values, kinds)
        with lab.session(table, day(1)) as session:
            try:
                session.stage_frame(step, frame)
                session.publish(step.step, lambda: None)
            except TerminalStepError as error:
                told = re.search(r"column [`\"]?(\w+)", str(error))
                if told is None:
                    raise
                names.remove(told[1])
                refused.add(told[1])
                continue
        return frame


def values_of(frame: Any) -> dict[str, list[str]]:
    """Column → its values; instants are numbers, so that Python's zones have no part in it."""
    plain = [
        f"unix_micros({name}) AS {name}"
        if kind == "timestamp"
        else f"transform({name}, x -> unix_micros(x.at)) AS {name}"
        if name == "deep"
        else name
        for name, kind in frame.dtypes
    ]
    rows = frame.selectExpr(*plain).orderBy("n").collect()
    return {name: [repr(_same(row[name])) for row in rows] for name in frame.columns}


def _same(value: Any) -> Any:
    if isinstance(value, dict):
        return sorted((key, _same(each)) for key, each in value.items())
    return value


@pytest.mark.sampled
@pytest.mark.parametrize("target", TARGETS)
def test_every_value_comes_back_from_a_target(lab: Lab, target: str):
    zones = cycle(["America/Sao_Paulo", "Asia/Shanghai", "Europe/Berlin"])
    numbers = count()

    @FEW
    @given(ROWS)
    def comes_back(rows: list[dict[str, Any]]) -> None:
        table, refused = f"ods.t{next(numbers)}", set[str]()
        lab.settings["timezone"] = next(zones)
        frame = written(lab, table, target, rows, refused)
        assert differences(values_of(lab.engine.read(table)), values_of(frame)) == {}
        assert refused <= REFUSED[target]
        assert refused >= REFUSED[target] - OF_VALUES

    comes_back()


LINES = st.lists(
    st.fixed_dictionaries({"t": TEXT | st.none(), "u": TEXT}), min_size=20, max_size=20
)


def read(lab: Lab, source: dict[str, Any], content: str) -> list[tuple[Any, ...]]:
    (lab.root / "in.txt").write_bytes(content.encode())
    lab.table("ods.t", {"source": {**source, "path": "in.txt"}, "target": {"type": "parquet"}})
    lab.run("ods.t", day(1))
    return lab.rows("ods.t")


@pytest.mark.usefixtures("long")
def test_every_text_comes_from_csv_as_it_was_written(lab: Lab):
    source = {"type": "csv", "columns": "n INT, t STRING, u STRING", "options": {"multiLine": True}}

    @FEW
    @given(LINES)
    def comes(lines: list[dict[str, Any]]) -> None:
        stream = io.StringIO()
        rows = [(n, line["t"], line["u"]) for n, line in enumerate(lines)]
        # Python has no NULL in CSV: what is not quoted is none, so every text is.
        for n, *texts in rows:
            quoted = [
                '"' + text.replace('"', '""') + '"' if text is not None else "" for text in texts
            ]
            stream.write(",".join([str(n), *quoted]) + "\n")
        assert sorted(read(lab, source, stream.getvalue())) == rows

    comes()


@pytest.mark.usefixtures("long")
def test_every_text_comes_from_json_as_it_was_written(lab: Lab):
    source = {"type": "json", "columns": "n INT, t STRING, u STRING"}

    @FEW
    @given(LINES)
    def comes(lines: list[dict[str, Any]]) -> None:
        rows = [(n, line["t"], line["u"]) for n, line in enumerate(lines)]
        content = "".join(json.dumps({"n": n, "t": t, "u": u}) + "\n" for n, t, u in rows)
        assert sorted(read(lab, source, content)) == rows

    comes()


def test_every_line_comes_from_text_as_it_was_written(lab: Lab):
    @FEW
    @given(LINES)
    def comes(lines: list[dict[str, Any]]) -> None:
        texts = [re.sub(r"[\r\n]", "_", line["u"]) for line in lines]
        found = read(lab, {"type": "text"}, "".join(f"{text}\n" for text in texts))
        assert sorted(found) == sorted((text,) for text in texts)

    comes()
