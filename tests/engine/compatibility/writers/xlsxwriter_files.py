"""Excel workbooks by XlsxWriter, with the cells that are given to it."""

from datetime import date, datetime, time, timedelta
from decimal import Decimal
from pathlib import Path

import xlsxwriter
from manifest import Case, Format, write_all

AT = datetime(2022, 1, 2, 3, 4, 5, 123000)
BOOLS = True, False
DAY = date(2022, 1, 2)


def case(name, declared, *values, read=None, form=None):
    """Return a case of two cells and an empty one; `form` is Excel's format of the cells."""
    return Case(name, ([*values, None], form), read or [*values, None], declared=declared)


def numbers():
    yield case("boolean", "BOOLEAN", *BOOLS)
    yield case("number, in INT", "INT", -(2**31), 2**31 - 1)
    yield case("number, in BIGINT", "BIGINT", 999_999_999_999_999, -1)
    yield case("number, in DOUBLE", "DOUBLE", 0.1, 1e300)
    yield case("number, in DECIMAL(9, 2)", "DECIMAL(9, 2)", Decimal("1.50"), Decimal("-1234567.89"))
    yield case("number with more digits than the scale", "DECIMAL(9, 2)", 1.234, 1)
    yield case("whole number, in STRING", "STRING", 7, 1e14, read=["7", "100000000000000", None])
    yield case("number, in STRING", "STRING", 1.5, 7)
    yield case("number, format 0.00, in STRING", "STRING", 7, 8, form="0.00")
    yield case("percentage", "DOUBLE", 0.5, 1.25, form="0%")
    yield case("fraction, in INT", "INT", 1.5, 1)


def times():
    yield case("date", "DATE", DAY, date(1900, 3, 1), form="yyyy-mm-dd")
    yield case("date before March 1900", "DATE", date(1900, 2, 28), DAY, form="yyyy-mm-dd")
    clock = {"form": "yyyy-mm-dd hh:mm:ss.000"}
    yield case("date and time, in TIMESTAMP_NTZ", "TIMESTAMP_NTZ", AT, AT, **clock)
    yield case("date and time, in DATE", "DATE", AT, AT, **clock)
    yield case("time of day", "STRING", time(3, 4, 5, 500000), time(0), form="hh:mm:ss.0")
    lasts = timedelta(hours=34, minutes=5), timedelta(seconds=1)
    yield case("duration", "STRING", *lasts, read=["34:05:00", "00:00:01", None], form="[h]:mm:ss")


def texts():
    yield case("text", "STRING", "a\n Zürich 東京 😀", " b ")
    yield case("text of digits, in STRING", "STRING", "007", "1e5")
    yield case("text of digits, in INT", "INT", "7", "8")
    yield case("text with a control character", "STRING", "a\rb_x000D_", "\x07")
    yield case("rich text", "STRING", ["a", "b", " c"], "d", read=["ab c", "d", None])
    yield case("formula", "INT", "=1+1", "=2", read=[2, 2, None])
    yield case("formula with a stored value", "INT", ("=1+1", 2), ("=2", 2), read=[2, 2, None])
    yield case("error", "DOUBLE", ("=1/0", "#DIV/0!"), ("=NA()", "#N/A"), read=["#DIV/0!"] * 3)


def in_days_of_1904():
    yield case("date, days counted from 1904", "DATE", DAY, date(1904, 1, 2), form="yyyy-mm-dd")


def write(path, columns, **options):
    with Path(path).open("wb") as file, xlsxwriter.Workbook(file, options) as book:
        sheet, bold = book.add_worksheet("Orders"), book.add_format({"bold": True})
        sheet.write_column(0, 0, ["n", 0, 1, 2])
        for place, (name, (cells, form)) in enumerate(columns.items(), 1):
            kind = book.add_format({"num_format": form} if form else {})
            sheet.write(0, place, name)
            for row, cell in enumerate(cells, 1):
                match cell:
                    case None:
                        continue
                    case list():
                        sheet.write_rich_string(row, place, cell[0], bold, *cell[1:])
                    case tuple():
                        sheet.write_formula(row, place, cell[0], kind, cell[1])
                    case timedelta() | date() | time():
                        sheet.write_datetime(row, place, cell, kind)
                    case _:
                        sheet.write(row, place, cell, kind)


def with_days_of_1904(path, columns):
    write(path, columns, date_1904=True)


write_all(
    "XlsxWriter",
    xlsxwriter.__version__,
    [
        Format("excel", write, [*numbers(), *times(), *texts()]),
        Format("excel", with_days_of_1904, list(in_days_of_1904())),
    ],
)
