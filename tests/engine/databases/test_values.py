"""Random rows of every type, through a target and back by a source: equal, or refused by name."""

import os
import re
from collections.abc import Mapping, Sequence
from datetime import date, datetime, timedelta
from itertools import count
from typing import Any

import pytest
import sqlalchemy as sa
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from logdriven_dagster.errors import TerminalStepError
from logdriven_dagster.model.windows import TimeWindow
from tests.engine.laboratory import Lab

EXAMPLES = int(os.environ.get("LOGDRIVEN_EXAMPLES", "2"))
ZONES = ["UTC", "Asia/Shanghai", "Europe/Berlin", "America/Sao_Paulo", "Australia/Lord_Howe"]
TURNS = [
    datetime(2022, 3, 27),
    datetime(2022, 10, 30),
    datetime(2018, 11, 4),
    datetime(2018, 2, 17),
]
"""Days on which clocks of these zones go forward or back."""
ROWS = 6
NUMBERS = count()


def whole(bits: int) -> st.SearchStrategy[int]:
    least, most = -(2 ** (bits - 1)), 2 ** (bits - 1) - 1
    return st.sampled_from([least, most]) | st.integers(least, most)


def digits(number: int, scale: int) -> st.SearchStrategy[str]:
    """Decimals of so many digits, so many of them behind the point."""
    most = 10**number - 1
    numbers = st.sampled_from([-most, most]) | st.integers(-most, most)
    return numbers.map(lambda n: f"{n}E-{scale}")


def texts() -> st.SearchStrategy[str]:
    tricky = ["", " ", 'it\'s \\ "x"\r\n\t', "'; --", "Zürich 東京 😀", "null", "x" * 70_000]
    return st.sampled_from(tricky) | st.text(st.characters(exclude_characters="\0"), max_size=20)


def near_turns() -> st.SearchStrategy[datetime]:
    minutes = st.integers(-180, 1620)
    return st.builds(lambda day, n: day + timedelta(minutes=n), st.sampled_from(TURNS), minutes)


def instants() -> st.SearchStrategy[datetime]:
    return st.datetimes(datetime(1, 1, 2), datetime(9999, 12, 30))


def quoted(value: Any) -> str:
    return f"'{value}'"


def hexadecimal(value: bytes) -> str:
    return f"X'{value.hex()}'"


TYPES: dict[str, tuple[st.SearchStrategy[Any], str, Any]] = {
    "bool": (st.booleans(), "BOOLEAN", quoted),
    "tiny": (whole(8), "TINYINT", quoted),
    "small": (whole(16), "SMALLINT", quoted),
    "number": (whole(32), "INT", quoted),
    "big": (whole(64), "BIGINT", quoted),
    "single": (st.floats(width=32, allow_nan=False, allow_infinity=False), "FLOAT", quoted),
    "double": (st.floats(allow_nan=False, allow_infinity=False), "DOUBLE", quoted),
    "endless": (st.sampled_from(["NaN", "Infinity", "-Infinity", "1.5"]), "DOUBLE", quoted),
    "cents": (digits(10, 2), "DECIMAL(12,2)", quoted),
    "digits": (digits(38, 0), "DECIMAL(38,0)", quoted),
    "places": (digits(38, 37), "DECIMAL(38,37)", quoted),
    "text": (texts(), "STRING", lambda v: f"decode({hexadecimal(v.encode())}, 'UTF-8')"),
    "zero": (st.sampled_from(["a\0b", "ab"]), "STRING", lambda v: quoted(v.replace("\0", r"\0"))),
    "bytes": (st.binary(max_size=20), "BINARY", hexadecimal),
    "day": (st.sampled_from([date.min, date.max]) | st.dates(), "DATE", quoted),
    "instant": (instants(), "TIMESTAMP", lambda v: quoted(f"{v}Z")),
    "turn": (near_turns(), "TIMESTAMP", lambda v: quoted(f"{v}Z")),
    "wall": (st.datetimes(), "TIMESTAMP_NTZ", quoted),
    "wall_turn": (near_turns(), "TIMESTAMP_NTZ", quoted),
}
"""Column → its values, its type in Spark, and how a value is written in SQL."""
REFUSABLE = {
    "sqlite": {"endless", "digits", "places", "turn"},
    "postgresql": {"zero"},
    "mysql": {"endless", "turn", "text"},  # of a character set that is not utf8mb4
}
"""The columns of which a database cannot hold every value."""
CANONICAL = {
    "BINARY": "hex({v})",
    # SQL takes both zeros for equal, and SQLite and MariaDB know only one.
    "FLOAT": "CAST(CAST({v} AS FLOAT) + float(0) AS STRING)",
    "DOUBLE": "CAST({v} + 0D AS STRING)",
}
Rows = Sequence[Mapping[str, Any]]
a_row = st.fixed_dictionaries({name: st.none() | values for name, (values, *_) in TYPES.items()})


def query(rows: Rows, names: Sequence[str]) -> str:
    """A query with these rows and columns."""

    def cell(name: str, value: Any) -> str:
        _, kind, text = TYPES[name]
        return f"CAST({'NULL' if value is None else text(value)} AS {kind})"

    lines = [
        ", ".join([str(n), *(cell(name, row[name]) for name in names)])
        for n, row in enumerate(rows)
    ]
    columns = ", ".join(["n", *names])
    return (
        f"SELECT * FROM ({' UNION ALL '.join(f'SELECT {line}' for line in lines)}) AS t({columns})"
    )


def canonical(frame: Any, names: Sequence[str]) -> list[tuple[Any, ...]]:
    """The rows as texts, in order."""
    texts = [CANONICAL.get(TYPES[name][1], "CAST({v} AS STRING)").format(v=name) for name in names]
    return [tuple(row) for row in frame.orderBy("n").selectExpr(*texts).collect()]


class Trip:
    """A way through a database, in a zone, and out of it into a table of files."""

    def __init__(self, lab: Lab, url: sa.URL, zone: str) -> None:
        self.lab, self.files = lab, f"ods.s{next(NUMBERS)}"
        url_text = url.render_as_string(hide_password=False)
        lab.settings |= {"timezone": zone, "connections": {"db": {"url": url_text}}}
        engine = sa.create_engine(url, poolclass=sa.NullPool)
        with engine.begin() as conn:
            conn.exec_driver_sql("DROP TABLE IF EXISTS t")

    def refused(self, rows: Rows, names: Sequence[str]) -> set[str]:
        """The columns that are refused on the way into the database and out of it into files."""
        target = {"type": "jdbc", "connection": "db", "table": "t"}
        self.lab.table("ods.t", {"sql": query(rows, names), "target": target})
        walls = [name for name in names if TYPES[name][1] == "TIMESTAMP_NTZ"]
        schema = ", ".join(f"{name} TIMESTAMP_NTZ" for name in walls)
        source = {"type": "jdbc", "connection": "db", "table": "t"}
        source |= {"options": {"customSchema": schema}} if schema else {}
        self.lab.table(self.files, {"source": source, "target": {"type": "parquet"}})
        try:
            for table in ("ods.t", self.files):
                self.lab.run(table, self.window)
        except TerminalStepError as error:
            named = {*re.findall(r"column (?:`\w+`[.])*`?(\w+)", str(error))} & {*names}
            if not named:
                raise
            return named
        return set()

    @property
    def window(self) -> TimeWindow:
        return self.lab.project.table("ods.t").grid.window(0)


@pytest.mark.sampled
@settings(
    max_examples=EXAMPLES,
    database=None,
    derandomize=True,
    phases=[Phase.generate],  # to make a failing frame smaller takes minutes
    suppress_health_check=list(HealthCheck),
)
@given(zone=st.sampled_from(ZONES), rows=st.lists(a_row, min_size=ROWS, max_size=ROWS))
def test_random_rows_come_back_equal_or_are_refused_by_name(
    lab: Lab, database_url: sa.URL, zone: str, rows: Rows
):
    names, refused = list(TYPES), {""}
    while refused:
        trip = Trip(lab, database_url, zone)
        refused = trip.refused(rows, names)
        names = [name for name in names if name not in refused]
    assert {*TYPES} - {*names} <= REFUSABLE[database_url.get_backend_name()]
    wanted = canonical(lab.spark.sql(query(rows, names)), names)
    assert canonical(lab.engine.read(trip.files), names) == wanted
