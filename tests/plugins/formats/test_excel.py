"""Cells of Excel workbooks are read as Excel shows them, or refused with file, sheet and cell."""

import re
import sys
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import pyarrow as pa
import pytest
from openpyxl import Workbook
from openpyxl.utils.datetime import CALENDAR_MAC_1904

from logdriven_dagster.errors import InvalidProjectError, TerminalStepError
from logdriven_dagster.plugins.formats.batches import Record, build_batches
from logdriven_dagster.testing.conformance import SourceConformance, SourceScene
from tests.builders import day
from tests.engine.laboratory import Lab

TARGET = {"type": "parquet"}
SOURCE = {"type": "excel", "path": "in", "columns": "v STRING"}


def write(path: Path, rows: Any, epoch: Any = None, **formats: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    book = Workbook()
    if epoch:
        book.epoch = epoch
    sheet = book.active
    sheet.title = "Orders"
    for row in rows:
        sheet.append(row)
    for cell, form in formats.items():
        sheet[cell].number_format = form
    book.save(path)
    return path


def load(lab: Lab, columns: str = "v STRING", sql: str | None = None, **fields: Any) -> Any:
    source = SOURCE | {"columns": columns} | fields
    lab.table("ods.t", {"source": source, "target": TARGET} | ({"sql": sql} if sql else {}))
    return lab.run("ods.t", day(1))


def refused(lab: Lab, columns: str = "v STRING", **fields: Any) -> str:
    with pytest.raises(TerminalStepError) as caught:
        load(lab, columns, **fields)
    return str(caught.value)


NOON = datetime(2022, 1, 2, 12, 30, 15, 123000)
READ: dict[str, tuple[str, Any, Any]] = {
    "text": ("STRING", "é\n😀", "é\n😀"),
    "text of digits": ("STRING", "007", "007"),
    "escaped text": ("STRING", "a_x000D_b_x005F_", "a\rb_"),
    "number as text": ("STRING", 7, "7"),
    "boolean": ("BOOLEAN", False, False),
    "int": ("INT", -7, -7),
    "bigint": ("BIGINT", 999_999_999_999_999, 999_999_999_999_999),
    "double": ("DOUBLE", 0.1, 0.1),
    "decimal": ("DECIMAL(9, 2)", 12.5, Decimal("12.50")),
    "sum": ("DECIMAL(9, 2)", 0.1 + 0.2, Decimal("0.30")),
    "date": ("DATE", date(2022, 1, 2), date(2022, 1, 2)),
    "time": ("TIMESTAMP_NTZ", NOON, NOON),
    "instant in Berlin": ("TIMESTAMP", NOON, NOON - timedelta(hours=1)),
    "empty": ("INT", None, None),
}


@pytest.mark.sampled
@pytest.mark.parametrize("epoch", [None, CALENDAR_MAC_1904])
def test_each_type_is_read_as_excel_shows_it(lab: Lab, epoch: Any):
    names = [f"c{number}" for number in range(len(READ))]
    lab.settings["timezone"] = "Europe/Berlin"
    write(lab.root / "in/f.xlsx", [names, [], [value for _, value, _ in READ.values()]], epoch)
    kinds = [kind for kind, _, _ in READ.values()]
    load(lab, ", ".join(f"{name} {kind}" for name, kind in zip(names, kinds, strict=True)))
    (row,) = lab.rows("ods.t")
    found = [v.replace(tzinfo=None) if isinstance(v, datetime) else v for v in row]
    assert found == [expected for _, _, expected in READ.values()]


REFUSED: dict[str, tuple[str, Any, str]] = {
    "a text": ("INT", "12", "holds '12', not a valid int"),
    "a fraction": ("INT", 1.5, "holds 1.5, not a valid int"),
    "a great number": ("INT", 2**40, "holds 1099511627776, not a valid int"),
    "digits": ("DECIMAL(9, 2)", 1.234, "holds 1.234, not a valid DECIMAL(9,2)"),
    "digits that Excel does not keep": (
        "DECIMAL(38, 0)",
        12345678901234567,
        "holds 1.234567890123457e+16, not a valid DECIMAL(38,0)",
    ),
    "a number beyond a float": ("FLOAT", 1e300, "holds 1e+300, not a valid float"),
    "a time in a date": ("DATE", NOON, "holds 2022-01-02 12:30:15"),
    "a time of day": ("TIMESTAMP", time(10, 0), "holds 10:00:00, not a valid TIMESTAMP"),
    "a number in a text": ("STRING", 1.5, "holds 1.5, which is not a text"),
    "a date in a text": ("STRING", NOON, "which is not a text"),
    "a boolean": ("INT", True, "holds True, not a valid int"),
    "an error": ("STRING", "#DIV/0!", "holds the error #DIV/0!"),
    "a formula": ("INT", "=1+1", "is a formula without a stored value; open and save"),
    "a day that Excel miscounts": ("DATE", date(1900, 2, 28), "counts days before March 1900"),
    "a skipped time": ("TIMESTAMP", datetime(2022, 3, 27, 2, 30), "since clocks skip it"),
}


@pytest.mark.sampled
@pytest.mark.parametrize("case", REFUSED)
def test_a_cell_that_does_not_fit_is_refused_with_its_place(lab: Lab, case: str):
    kind, value, problem = REFUSED[case]
    lab.settings["timezone"] = "Europe/Berlin"
    write(lab.root / "in/f.xlsx", [["a", "v"], [1, None], [2, value]])
    found = refused(lab, f"a INT, v {kind}")
    assert "in/f.xlsx, sheet Orders, row 3: column v in cell B3 " in found
    assert problem in found


def test_values_of_formulas_that_excel_has_computed_are_read(lab: Lab):
    path = write(lab.root / "in/f.xlsx", [["v"], ["=1+1"]])
    store_value(path, b"7")  # as XlsxWriter stores 0, which Excel replaces when it opens the file
    assert "cell A2 is a formula without a stored value" in refused(lab, "v INT")
    store_value(path, b"7", computed=True)
    load(lab, "v INT")
    assert lab.rows("ods.t") == [(7,)]


def store_value(path: Path, value: bytes, *, computed: bool = False) -> None:
    """Store a value for each formula of a workbook; `computed` as Excel does when it saves."""
    with ZipFile(path) as book:
        parts = {name: book.read(name) for name in book.namelist()}
    with ZipFile(path, "w") as book:
        for name, part in parts.items():
            changed = re.sub(rb"</f><v ?/>|</f><v></v>", b"</f><v>" + value + b"</v>", part)
            book.writestr(
                name, changed.replace(b' fullCalcOnLoad="1"', b"") if computed else changed
            )


def test_a_row_fails_its_own_window(lab: Lab):
    times = [datetime(2022, 1, n, 12) for n in (1, 2)]
    write(lab.root / "in/f.xlsx", [["at", "n"], [times[0], 1], [times[1], "x"]])
    source = SOURCE | {"columns": "at TIMESTAMP, n INT", "window_column": "at"}
    lab.table("ods.t", {"source": source, "target": TARGET})
    assert lab.run("ods.t", day(1)).counts.target == 1
    with pytest.raises(TerminalStepError, match="row 3: column n in cell B3 holds 'x'"):
        lab.run("ods.t", day(2))


def test_a_row_without_a_valid_time_fails_every_window(lab: Lab):
    write(lab.root / "in/f.xlsx", [["at"], [datetime(2022, 1, 1)], ["soon"]])
    source = SOURCE | {"columns": "at TIMESTAMP", "window_column": "at"}
    lab.table("ods.t", {"source": source, "target": TARGET})
    for number in (1, 2):
        with pytest.raises(TerminalStepError, match="row 3: column at in cell A3 holds 'soon'"):
            lab.run("ods.t", day(number))


def test_a_cell_of_a_key_that_does_not_fit_is_refused():
    record = Record({}, "row 2", {"id": "holds 'x'"})
    columns = pa.schema([("id", pa.int32())])
    assert list(build_batches([record], columns, {}, "f", frozenset()))
    with pytest.raises(TerminalStepError, match="f, row 2: column id holds 'x'"):
        list(build_batches([record], columns, {}, "f", frozenset({"id"})))


def test_a_sheet_is_found_by_its_name_and_rows(lab: Lab):
    path = write(lab.root / "in/f.xlsx", [["Report"], [], ["v"], ["x"], ["total"]])
    load(lab, header_row=3, last_row=4)
    assert lab.rows("ods.t") == [("x",)]
    assert "row 1: the names are Report, the columns are v" in refused(lab)
    assert "has no sheet Sales: Orders" in refused(lab, sheet="Sales")
    assert load(lab, header_row=None).counts.target == 4
    book = Workbook()
    book.create_sheet("Orders").append(["v"])
    book.save(path)
    assert "has several sheets; set sheet to one of them: Sheet, Orders" in refused(lab)
    assert load(lab, sheet="Orders").counts.target == 0


def test_cells_beyond_the_columns_are_refused(lab: Lab):
    write(lab.root / "in/f.xlsx", [["v"], ["x", None], ["y", "z"]])
    assert "row 3: column v is the last one, but cell B3 holds 'z'" in refused(lab)


@pytest.mark.parametrize(
    ("content", "problem"),
    [(b"a,b\n", "is not an Excel workbook"), (b"\xd0\xcf\x11\xe0", "an older .xls file")],
)
def test_a_file_that_is_not_a_workbook_is_refused(lab: Lab, content: bytes, problem: str):
    write(lab.root / "in/f.xlsx", []).write_bytes(content)
    assert problem in refused(lab)


@pytest.mark.parametrize(
    ("columns", "problem"), [(None, "columns: missing"), ("v ARRAY<INT>", "cannot be ARRAY")]
)
def test_columns_have_types_of_cells(lab: Lab, columns: str | None, problem: str):
    write(lab.root / "in/f.xlsx", [["v"], ["x"]])
    source = {name: value for name, value in SOURCE.items() if name != "columns"}
    lab.table(
        "ods.t", {"source": source | ({"columns": columns} if columns else {})} | {"target": TARGET}
    )
    with pytest.raises((InvalidProjectError, TerminalStepError), match=problem):
        lab.run("ods.t", day(1))


@pytest.mark.sampled
@pytest.mark.parametrize(("kind", "library"), [("excel", "openpyxl"), ("avro", "fastavro")])
def test_a_missing_library_is_named_with_its_extra(
    lab: Lab, kind: str, library: str, monkeypatch: pytest.MonkeyPatch
):
    write(lab.root / "in/f.xlsx", [["v"], ["x"]])
    monkeypatch.setitem(sys.modules, library, None)
    lab.table("ods.t", {"source": SOURCE | {"type": kind}, "target": TARGET})
    with pytest.raises(
        TerminalStepError, match=rf"{library}: pip install 'logdriven_dagster\[{kind}\]'"
    ):
        lab.run("ods.t", day(1))


class TestExcel(SourceConformance):
    @pytest.fixture
    def scene(self, lab: Lab) -> SourceScene:
        times = [datetime(2022, 1, d, h) for d, h in ((1, 1), (1, 23), (3, 0))]
        write(lab.root / "in/f.xlsx", [["at"], *([each] for each in times)])
        source = SOURCE | {"columns": "at TIMESTAMP", "window_column": "at"}
        target = TARGET | {"window_column": "at"}
        lab.table("ods.t", {"source": source, "target": target})
        return SourceScene(project=lab.project, start=lambda: lab.engine, counts=(2, 0, 1))
