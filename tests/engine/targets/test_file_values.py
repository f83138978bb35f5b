"""Random values of every type through a target of files and back by a source: equal, or refused."""

import re
from collections.abc import Mapping, Sequence
from itertools import count, cycle
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from logdriven_dagster.errors import TerminalStepError
from tests.builders import day
from tests.engine.laboratory import Lab
from tests.engine.targets.round_trips import FEW, INSTANTS, differences

ZONES = cycle(["Europe/Berlin", "America/Sao_Paulo", "Australia/Lord_Howe"])
NUMBERS = count()
TURNS = [
    "2026-10-25 00:30:00",
    "2026-10-25 01:30:00.000001",
    "2018-02-18 01:30:00",
    "2018-02-18 02:30:00.5",
    "2026-04-04 14:45:00",
    "2026-04-04 15:15:00",
]
"""Pairs of instants, in UTC, that show the same time on the clocks of one of the zones."""


def literal(kind: str, values: Sequence[str], behind: str = "") -> st.SearchStrategy[str]:
    return st.sampled_from([f"{kind}'{value}'{behind}" for value in values])


def lists(kind: str, element: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    several = st.lists(element | st.just("NULL"), max_size=2)
    return several.map(lambda texts: f"CAST(array({', '.join(texts)}) AS ARRAY<{kind}>)")


def maps(key: st.SearchStrategy[str], value: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return st.builds(lambda k, v: f"map({k}, {v})", key, value)


def structs(**fields: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    def text(values: Mapping[str, str]) -> str:
        named = [f"'{name}', {values[name]}" for name in fields]
        return f"named_struct({', '.join(named)})"

    return st.fixed_dictionaries(fields).map(text)


instant = literal("TIMESTAMP", [f"{text}Z" for text in (*TURNS, *INSTANTS)])
wall = literal("TIMESTAMP_NTZ", [*TURNS, *INSTANTS, "2026-03-29 02:30:00"])
on_day = literal("DATE", ["0001-01-01", "1582-10-10", "2024-02-29", "9999-12-31"])
months = literal("INTERVAL ", ["-178956970-8", "178956970-7", "0-1"], " YEAR TO MONTH")
lasted = literal(
    "INTERVAL ", ["-106751991 04:00:54.775807", "106751991 04:00:54.775807"], " DAY TO SECOND"
)
anything = literal("", ["1", "1.50", "null", '"x"', '{"a": [1, {"b": null}]}', "[]"]).map(
    lambda text: f"parse_json({text})"
)
data = literal("X", ["", "00ff", "c3bc"])
money = literal("", ["-9999999.99", "0.00", "1.50"]).map(lambda v: f"CAST({v} AS DECIMAL(9,2))")
text = literal("", ["", " ", "a,b", '"', "\\\\", "\\n", "é東🜁", "null", "NaN"])
number = literal("", ["-2147483648", "0", "2147483647"]).map(lambda v: f"CAST({v} AS INT)")
double = literal("", ["NaN", "-Infinity", "-0.0", "5e-324", "0.1"]).map(
    lambda v: f"CAST({v} AS DOUBLE)"
)

TYPES: Mapping[str, tuple[str, st.SearchStrategy[str]]] = {
    "flag": ("BOOLEAN", st.sampled_from(["true", "false"])),
    "number": ("INT", number),
    "double": ("DOUBLE", double),
    "money": ("DECIMAL(9,2)", money),
    "words": ("STRING", text),
    "bytes": ("BINARY", data),
    "on_day": ("DATE", on_day),
    "at": ("TIMESTAMP", instant),
    "wall": ("TIMESTAMP_NTZ", wall),
    "months": ("INTERVAL YEAR TO MONTH", months),
    "lasted": ("INTERVAL DAY TO SECOND", lasted),
    "anything": ("VARIANT", anything),
    "all_bytes": ("ARRAY<BINARY>", lists("BINARY", data)),
    "all_months": ("ARRAY<INTERVAL YEAR TO MONTH>", lists("INTERVAL YEAR TO MONTH", months)),
    "all_things": ("ARRAY<VARIANT>", lists("VARIANT", anything)),
    "by_text": ("MAP<STRING,INT>", maps(text, number)),
    "by_day": ("MAP<DATE,STRING>", maps(on_day, text)),
    "deep": (
        "STRUCT<at:TIMESTAMP,each:ARRAY<STRUCT<wall:TIMESTAMP_NTZ,cost:DECIMAL(9,2)>>>",
        structs(
            at=instant,
            each=lists(
                "STRUCT<wall:TIMESTAMP_NTZ,cost:DECIMAL(9,2)>", structs(wall=wall, cost=money)
            ),
        ),
    ),
}
"""Column → its type, and values of it in SQL."""
Rows = Sequence[Mapping[str, str | None]]
a_row = st.fixed_dictionaries({name: st.none() | values for name, (_, values) in TYPES.items()})
# Parquet keeps the numbers of a VARIANT, and may hold a BIGINT as a DECIMAL: they are one there.
CANONICAL = {
    "BINARY": "hex({v})",
    "ARRAY<BINARY>": "transform({v}, x -> hex(x))",
    "VARIANT": "to_json({v})",
    "ARRAY<VARIANT>": "transform({v}, x -> to_json(x))",
}
REFUSED = {
    "iceberg": {"months", "lasted", "anything", "all_months", "all_things"},
    "parquet": set[str](),
    "orc": {"anything", "all_things"},
    "csv": {"bytes", "anything", *(name for name, (kind, _) in TYPES.items() if "<" in kind)},
    "json": {"by_day", "anything", "all_things"},
}
"""The columns that a format cannot hold."""
OF_VALUES = {"orc": {"on_day", "at", "wall", "by_day", "deep"}}
"""The columns of which a format cannot hold every value."""


def query(rows: Rows, names: Sequence[str]) -> str:
    lines = [
        ", ".join([str(n), *(f"CAST({row[name] or 'NULL'} AS {TYPES[name][0]})" for name in names)])
        for n, row in enumerate(rows)
    ]
    every = " UNION ALL ".join(f"SELECT {line}" for line in lines)
    return f"SELECT * FROM ({every}) AS t({', '.join(['n', *names])})"


def canonical(frame: Any, names: Sequence[str]) -> dict[str, list[str]]:
    """Column → its values as texts, in order."""
    texts = [f"CAST({CANONICAL.get(TYPES[n][0], '{v}').format(v=n)} AS STRING) {n}" for n in names]
    rows = frame.orderBy("n").selectExpr(*texts).collect()
    return {name: [row[name] for row in rows] for name in names}


def trip(lab: Lab, form: str, rows: Rows, names: Sequence[str]) -> str:
    """The table that has read the rows from files which another one has written."""
    made, read = f"ods.a{next(NUMBERS)}", f"ods.b{next(NUMBERS)}"
    lab.table(made, {"sql": query(rows, names), "target": {"type": form}})
    location = lab.run(made, day(1)).staged[0].location
    if form == "iceberg":
        return made
    source: dict[str, Any] = {"type": form, "path": location}
    if form in ("csv", "json"):
        columns = ", ".join(f"{name} {TYPES[name][0]}" for name in names)
        source["columns"] = f"n INT, {columns}, _window_start TIMESTAMP"
    if form == "csv":
        source |= {"header": True, "options": {"multiLine": True}}
    sql = f"SELECT n, {', '.join(names)} FROM source"
    lab.table(read, {"source": source, "sql": sql, "target": {"type": "parquet"}})
    lab.run(read, day(1))
    return read


@pytest.mark.sampled
@pytest.mark.parametrize("form", REFUSED)
def test_values_of_every_type_come_back_from_files_or_are_refused_by_name(lab: Lab, form: str):
    @settings(FEW, max_examples=2)
    @given(st.lists(a_row, min_size=8, max_size=8))
    def come_back(rows: Rows) -> None:
        lab.settings["timezone"] = next(ZONES)
        names, table = list(TYPES), ""
        while not table:
            try:
                table = trip(lab, form, rows, names)
            except TerminalStepError as error:
                told = re.search(r"column [`\"]?(\w+)", str(error))
                if told is None:
                    raise
                names.remove(told[1])
        found = canonical(lab.engine.read(table), names)
        assert differences(found, canonical(lab.spark.sql(query(rows, names)), names)) == {}
        refused = {*TYPES} - {*names}
        assert REFUSED[form] <= refused <= REFUSED[form] | OF_VALUES.get(form, set())

    come_back()


REFUSED_TIME = 'data type TIME is not supported|Literals of the type "TIME" are not supported'
"""From Spark 4.1 on there is such a type, and no file format takes it."""


def test_a_time_of_day_is_refused_while_spark_has_no_such_type(lab: Lab):
    lab.table("ods.t", {"sql": "SELECT TIME'12:00:00' AS t", "target": {"type": "parquet"}})
    with pytest.raises(TerminalStepError, match=REFUSED_TIME):
        lab.run("ods.t", day(1))
