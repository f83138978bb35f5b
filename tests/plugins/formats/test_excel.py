"""Cells of Excel workbooks are read as Excel shows them, or refused with file, sheet and cell."""

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
from pyspark.sql import types as ty

from logdriven_dagster.errors import InvalidProjectError, TerminalStepError
from logdriven_dagster.plugins.formats.batches import Record, build_batches
from logdriven_dagster.plugins.formats.excel import build_record_reader
from logdriven_dagster.plugins.formats.models import ExcelSource
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
    "time of day": ("STRING", time(1, 2, 3, 500_000), "01:02:03.5"),
    "duration": ("STRING", timedelta(hours=34, minutes=5), "34:05:00"),
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


KINDS = {
    "STRING": ty.StringType(),
    "INT": ty.IntegerType(),
    "DOUBLE": ty.DoubleType(),
    "DECIMAL(9, 2)": ty.DecimalType(9, 2),
    "DATE": ty.DateType(),
    "TIMESTAMP_NTZ": ty.TimestampNTZType(),
}


def cells(path: Path, kind: str) -> list[Any]:
    """The values of the column `v`, or the problems, without Spark."""
    source = ExcelSource.model_validate({**SOURCE, "columns": f"v {kind}"})
    column = ty.StructType().add("v", KINDS[kind])
    read = build_record_reader(source, column, "UTC")
    with path.open("rb") as stream:
        return [r.problems.get("v") or r.values.get("v") for r in read(stream, "f.xlsx")]


def edit(path: Path, *changes: tuple[bytes, bytes]) -> Path:
    """Replace texts in the parts of a workbook and in their names, as other programs write it."""
    with ZipFile(path) as book:
        parts = {name: book.read(name) for name in book.namelist()}
    with ZipFile(path, "w") as book:
        for each in parts.items():
            name, part = each[0].encode(), each[1]
            for old, new in changes:
                name, part = name.replace(old, new), part.replace(old, new)
            book.writestr(name.decode(), part)
    return path


COMPUTED = (b' fullCalcOnLoad="1"', b"")
"""Excel removes the mark when it saves; openpyxl and XlsxWriter set it."""


def test_values_of_formulas_that_excel_has_computed_are_read(tmp_path: Path):
    path = write(tmp_path / "f.xlsx", [["v"], ["=1+1"]])
    missing = "in cell A2 is a formula without a stored value"
    assert cells(path, "INT")[0].startswith(missing)
    for value in (b"</f><v />", b"</f><v></v>", b"</f><v/>"):
        edit(path, (value, b"</f><v>7</v>"))  # as XlsxWriter stores 0
    assert cells(path, "INT")[0].startswith(missing)
    assert cells(edit(path, COMPUTED), "INT") == [7]


def test_formulas_are_found_in_parts_of_any_name(tmp_path: Path):
    path = write(tmp_path / "f.xlsx", [["v"], ["=1+1"]])
    for old, new in {"worksheets/sheet1": "s/Sheet", "workbook.xml": "book.xml"}.items():
        edit(path, (old.encode(), new.encode()))
    assert "is a formula without a stored value" in cells(path, "INT")[0]


def test_excel_counts_days_from_march_1900(tmp_path: Path):
    """Serials 1 to 60 are other days than Excel shows, and 60 is no day at all."""
    rows = [["v"], *([n] for n in (-1, 59, 60, 61, 61.5))]
    formats = {f"A{n}": "yyyy-mm-dd" for n in range(2, 7)}
    path = write(tmp_path / "f.xlsx", rows, **formats)
    *problems, first, noon = cells(path, "TIMESTAMP_NTZ")
    assert all("counts days before March 1900 wrongly" in each for each in problems)
    assert (first, noon) == (datetime(1900, 3, 1), datetime(1900, 3, 1, 12))
    path = write(tmp_path / "f.xlsx", rows, CALENDAR_MAC_1904, **formats)
    problem, *_, found, _ = cells(path, "TIMESTAMP_NTZ")
    assert "before the first day of its workbook, 1904-01-01" in problem
    assert found == datetime(1904, 3, 2)


def test_a_time_of_day_in_a_format_of_days_is_refused(tmp_path: Path):
    formats = {"A2": "yyyy-mm-dd", "A3": '"hours" d', "A4": "[Red]h:mm", "A5": "[h]:mm"}
    rows = [["v"], [0.5], [0.5], [0.5], [1.5]]
    day, text, *found = cells(write(tmp_path / "f.xlsx", rows, **formats), "STRING")
    assert "which is not a text" in day
    assert "which is not a text" in text
    assert found == ["12:00:00", "36:00:00"]


def test_escaped_characters_are_decoded_once(tmp_path: Path):
    """Excel stores texts in a table, from which openpyxl would remove `x005F_`."""
    path = write(tmp_path / "f.xlsx", [["v"], ["0"], ["1"], ["2"]])
    kind = "application/vnd.openxmlformats-officedocument.spreadsheetml.sharedStrings+xml"
    part = f'<Override PartName="/xl/t.xml" ContentType="{kind}"/></Types>'
    edit(path, (b"</Types>", part.encode()))
    for n in (b"0", b"1", b"2"):
        edit(path, (b't="inlineStr"><is><t>%b</t></is>' % n, b't="s"><v>%b</v>' % n))
    texts = "<si><t>a_x000D_b_x005F_x000D_</t></si><si><t>x005F_</t></si>"
    runs = "<si><r><t>a</t></r><r><rPr><b/></rPr><t> b</t></r></si>"
    with ZipFile(path, "a") as book:
        namespace = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
        book.writestr("xl/t.xml", f'<sst xmlns="{namespace}">{texts}{runs}</sst>')
    assert cells(path, "STRING") == ["a\rb_x000D_", "x005F_", "a b"]


def test_percentages_are_fractions_and_texts_of_runs_are_whole(tmp_path: Path):
    path = write(tmp_path / "f.xlsx", [["v"], [0.5]], A2="0%")
    assert cells(path, "DOUBLE") == [0.5]
    path = write(tmp_path / "f.xlsx", [["v"], ["ab"]])
    edit(path, (b"<t>ab</t>", b"<r><t>a</t></r><r><rPr><b/></rPr><t> b</t></r>"))
    assert cells(path, "STRING") == ["a b"]


def test_times_of_iso_8601_and_numbers_without_a_value_are_read(tmp_path: Path):
    path = write(tmp_path / "f.xlsx", [["v"], [1], [2]])
    edit(path, (b'<c r="A2" t="n"><v>1<', b'<c r="A2" t="d"><v>2022-01-02<'))
    assert cells(path, "DATE")[0] == date(2022, 1, 2)
    edit(path, (b"2022-01-02<", b"1E400<"), (b't="d"', b't="n"'))
    for kind in ("DOUBLE", "INT", "STRING", "DECIMAL(9, 2)"):
        assert "holds inf" in cells(path, kind)[0]


NOT_READ = {
    "a Strict workbook": (
        (b"schemas.openxmlformats.org/officeDocument/2006/relationships", b"purl.oclc.org/r"),
        "f.xlsx: openpyxl finds no sheet, as in a Strict Open XML workbook",
    ),
    "a workbook of bytes (.xlsb)": (
        (b"spreadsheetml.sheet.main+xml", b"ms-excel.sheet.binary"),
        "f.xlsx is not an Excel workbook (.xlsx, .xlsm), or openpyxl cannot read it (File contains",
    ),
    "an entity": (
        (b"<t>x<", b"<t>&e;<"),
        "f.xlsx, after row 1: openpyxl cannot read the sheet (undefined entity",
    ),
    "damaged XML": ((b"<sheetData>", b"<sheetData"), "f.xlsx, after row 0: openpyxl cannot read"),
}


@pytest.mark.parametrize("case", NOT_READ)
def test_a_workbook_that_openpyxl_cannot_read_is_refused(tmp_path: Path, case: str):
    change, problem = NOT_READ[case]
    path = edit(write(tmp_path / "f.xlsx", [["v"], ["x"]]), change)
    with pytest.raises(TerminalStepError) as caught:
        cells(path, "STRING")
    assert str(caught.value).startswith(problem)


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
