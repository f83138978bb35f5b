"""Values of test files in the types of their columns, and types that follow from values."""

from datetime import date, datetime, timezone
from decimal import Decimal
from typing import Any, NoReturn
from zoneinfo import ZoneInfo

import pyarrow as pa
import pytest

from logdriven_dagster.config.yaml.bounds import read_yaml
from logdriven_dagster.config.yaml.loader import Loader
from logdriven_dagster.plugins.table_tests.comparison import is_equal
from logdriven_dagster.plugins.table_tests.given.inference import infer_columns
from logdriven_dagster.plugins.table_tests.given.values import convert_row, convert_value

ZONE = ZoneInfo("Europe/Berlin")
TIME, CLOCK = pa.timestamp("us", tz="UTC"), pa.timestamp("us")


@pytest.mark.parametrize(
    ("written", "kind", "value"),
    [
        ("5", pa.int32(), 5),
        ("5.10", pa.decimal128(12, 2), Decimal("5.10")),
        ("'12345678901234567.89'", pa.decimal128(20, 2), Decimal("12345678901234567.89")),
        ("2022-01-31", pa.date32(), date(2022, 1, 31)),
        ("2022-07-01 06:00", TIME, datetime(2022, 7, 1, 4, tzinfo=timezone.utc)),
        ("2022-07-01T06:00:00Z", TIME, datetime(2022, 7, 1, 6, tzinfo=timezone.utc)),
        ("2022-07-01 06:00", CLOCK, datetime(2022, 7, 1, 6)),
        ("true", pa.bool_(), True),
        ("off", pa.string(), "off"),
        ("012", pa.string(), "012"),
        ("[1, null]", pa.list_(pa.int64()), [1, None]),
        ("{a: 1}", pa.struct([("a", pa.int8()), ("b", pa.string())]), {"a": 1, "b": None}),
        ("{a: 1}", pa.map_(pa.string(), pa.int8()), [("a", 1)]),
        ("null", pa.int8(), None),
    ],
)
def test_a_value_is_read_in_the_type_of_its_column(written: str, kind: Any, value: Any):
    _, read = read_yaml(written, Loader)
    assert convert_value(read, kind, ZONE) == value


@pytest.mark.parametrize(
    ("written", "kind", "problem"),
    [
        ("5.5", pa.int32(), "must be a whole number (INT), not 5.5"),
        ("300", pa.int8(), "must be a whole number from -128 to 127 (TINYINT), not 300"),
        ("5.001", pa.decimal128(12, 2), "12 digits, 2 of them decimals (DECIMAL(12,2)), not 5.001"),
        ("12345.5", pa.decimal128(6, 2), "not 12345.5"),
        ("soon", pa.date32(), "must be a date such as 2022-01-31 (DATE), not 'soon'"),
        ("2022-10-30 02:30", TIME, "occurs twice in Europe/Berlin"),
        ("2022-07-01 06:00Z", CLOCK, "without an offset"),
        ("5", pa.string(), "must be text, as in '5' (STRING), not 5"),
        ("1", pa.bool_(), "must be true or false (BOOLEAN), not 1"),
        ("{a: x}", pa.struct([("a", pa.int8())]), "field a: must be a whole number"),
        ("{c: 1}", pa.struct([("a", pa.int8())]), "field c: unknown field; the fields are a"),
    ],
)
def test_a_value_that_does_not_fit_is_refused(written: str, kind: Any, problem: str):
    _, read = read_yaml(written, Loader)
    with pytest.raises(ValueError, match=r"\w") as refused:
        convert_value(read, kind, ZONE)
    assert problem in str(refused.value)


def test_times_of_an_hour_that_occurs_twice_are_different():
    early, late = (datetime(2022, 10, 30, 2, 30, tzinfo=ZONE, fold=fold) for fold in (0, 1))
    assert is_equal(early, early)
    assert not is_equal(early, late)
    assert not is_equal([early], [late])


def test_a_column_is_given_once_in_a_row():
    def refuse(name: str, problem: str) -> NoReturn:
        raise ValueError(f"{name}: {problem}")

    with pytest.raises(ValueError, match="ID: given twice, also as id"):
        convert_row({"id": 1, "ID": 2}, [pa.field("id", pa.int32())], ZONE, refuse)


def test_types_follow_from_values():
    row = {"i": 1, "f": 1.5, "b": True, "d": "2022-01-01", "t": "2022-01-01 06:00", "s": "x"}
    row |= {"l": [1], "m": {"k": "v"}, "mixed": "2022-01-01"}
    assert list(infer_columns([row, {"f": 2, "mixed": "x"}], from_texts=False)) == [
        "`i` BIGINT",
        "`f` DOUBLE",
        "`b` BOOLEAN",
        "`d` DATE",
        "`t` TIMESTAMP",
        "`s` STRING",
        "`l` ARRAY<BIGINT>",
        "`m` STRUCT<`k`: STRING>",
        "`mixed` STRING",
    ]


def test_texts_of_csv_files_are_numbers_unless_they_begin_with_zero():
    rows = [{"n": "1", "zip": "01234", "f": "1.5", "b": "true"}]
    assert list(infer_columns(rows, from_texts=True)) == [
        "`n` BIGINT",
        "`zip` STRING",
        "`f` DOUBLE",
        "`b` BOOLEAN",
    ]


@pytest.mark.parametrize(
    ("values", "problem"),
    [([None], "the type of a is unknown"), ([1, "x"], "a has values of several types")],
)
def test_columns_without_a_clear_type_are_refused(values: list[Any], problem: str):
    with pytest.raises(ValueError, match=problem):
        list(infer_columns([{"a": value} for value in values], from_texts=False))
