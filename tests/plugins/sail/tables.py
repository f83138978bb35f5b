"""Tables of difficult values, as Parquet files that both engines read."""

import datetime as dt
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.parquet as pq

UTC = dt.timezone.utc
NAN, INF = float("nan"), float("inf")

Values: TypeAlias = tuple[str, pa.DataType, list[Any]]

VALUES: dict[str, Values] = {
    "b": ("BOOLEAN", pa.bool_(), [True, False, None]),
    "i": ("INT", pa.int32(), [0, 1, -1, 7, 46341, 2**31 - 1, -(2**31), None]),
    "l": ("BIGINT", pa.int64(), [0, 1, -1, 3037000500, 2**31, 2**63 - 1, -(2**63), None]),
    "x": (
        "DOUBLE",
        pa.float64(),
        [0.0, -0.0, 1.5, NAN, INF, -INF, 5e-324, 1.7976931348623157e308, None],
    ),
    "s": (
        "STRING",
        pa.string(),
        ["", "a", "A", "b ", "ß", "İ", "é", "e\u0301", "😀", "\uffff", "a\x00b", "'\\\"`", None],
    ),
    "d": (
        "DATE",
        pa.date32(),
        [dt.date(*day) for day in ((1, 1, 1), (1582, 10, 4), (1582, 10, 15), (1970, 1, 1))]
        + [dt.date(2024, 2, 29), dt.date(9999, 12, 31), None],
    ),
    "t": (
        "TIMESTAMP",
        pa.timestamp("us", tz="UTC"),
        [
            dt.datetime(1700, 1, 1, tzinfo=UTC),
            dt.datetime(1969, 12, 31, 23, 59, 59, 999999, tzinfo=UTC),
            dt.datetime(1970, 1, 1, tzinfo=UTC),
            dt.datetime(2024, 3, 31, 0, 59, 59, 999999, tzinfo=UTC),
            dt.datetime(2024, 10, 27, 1, 30, 0, 1, tzinfo=UTC),
            dt.datetime(2250, 12, 31, 23, 59, 59, 999999, tzinfo=UTC),
            None,
        ],
    ),
    "m": (
        "DECIMAL(12,2)",
        pa.decimal128(12, 2),
        [Decimal(text) for text in ("0", "0.01", "-0.01", "1.25", "-1.25", "9999999999.99")]
        + [Decimal("-9999999999.99"), None],
    ),
    "n": (
        "DECIMAL(5,0)",
        pa.decimal128(5, 0),
        [Decimal(text) for text in ("0", "1", "99999", "-99999", "2")] + [None],
    ),
    "w": (
        "DECIMAL(28,6)",
        pa.decimal128(28, 6),
        [Decimal(text) for text in ("0", "0.000001", "1.250000", "-0.555555")]
        + [Decimal("9" * 22 + ".999999"), Decimal("-" + "9" * 22 + ".999999"), None],
    ),
}
"""Column → type and values; with `2` behind its name it holds each value beside each other one."""

WIDE: dict[str, Values] = {
    "p": (
        "DECIMAL(38,0)",
        pa.decimal128(38, 0),
        [Decimal(text) for text in ("0", "1", "-1", "9" * 38, "-" + "9" * 38)] + [None],
    ),
    "q": (
        "DECIMAL(38,18)",
        pa.decimal128(38, 18),
        [Decimal(text) for text in ("0", "1.5", "0." + "0" * 17 + "1")]
        + [Decimal("9" * 20 + "." + "9" * 18), None],
    ),
    "r": (
        "DECIMAL(38,38)",
        pa.decimal128(38, 38),
        [Decimal(text) for text in ("0", "0.5", "0." + "9" * 38, "-0." + "9" * 38)] + [None],
    ),
}
"""Decimals of as many digits as there can be; much of what is done with them is refused."""


@dataclass(frozen=True, slots=True)
class Example:
    """A table in one Parquet file."""

    location: str
    ddl: str

    @classmethod
    def written(cls, path: Path, table: pa.Table, ddl: str) -> "Example":
        pq.write_table(table, path)
        return cls(path.as_uri(), ddl)


def pairs(folder: Path, columns: Mapping[str, Values] = VALUES) -> Example:
    """Every value of a type beside every other one of it; `id` counts the rows."""
    rows = max(len(values) for _, _, values in columns.values()) ** 2
    made: dict[str, pa.Array] = {"id": pa.array(range(rows), pa.int64())}
    ddl = ["id BIGINT"]
    for name, (kind, arrow, values) in columns.items():
        size = len(values)
        made[name] = pa.array([values[k // size % size] for k in range(rows)], arrow)
        made[f"{name}2"] = pa.array([values[k % size] for k in range(rows)], arrow)
        ddl += [f"{name} {kind}", f"{name}2 {kind}"]
    return Example.written(folder / "pairs.parquet", pa.table(made), ", ".join(ddl))


def characters(folder: Path) -> Example:
    """Every character by itself and between others."""
    numbers = [n for n in (*range(0x20000), *range(0xE0000, 0xE0200)) if not 0xD800 <= n < 0xE000]
    columns = {
        "id": pa.array(numbers, pa.int64()),
        "one": pa.array([chr(n) for n in numbers]),
        "within": pa.array([f"aΣ{chr(n)}Σ{chr(n)}z" for n in numbers]),
    }
    ddl = "id BIGINT, one STRING, within STRING"
    return Example.written(folder / "characters.parquet", pa.table(columns), ddl)
