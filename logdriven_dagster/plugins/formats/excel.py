"""Reading Excel workbooks with openpyxl: each cell by its own type, as Excel shows it."""

import re
import sys
from collections.abc import Callable, Iterator, Sequence
from datetime import date, datetime, time, timedelta, timezone
from decimal import Decimal
from enum import Enum
from functools import partial
from itertools import zip_longest
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple
from zipfile import BadZipFile, ZipFile
from zoneinfo import ZoneInfo

from logdriven_dagster.engine.queries.nested_values import sql_type
from logdriven_dagster.engine.sources.readers import Reading
from logdriven_dagster.engine.spark.modes import mode_of
from logdriven_dagster.errors import TerminalStepError
from logdriven_dagster.plugins.formats.batches import Record, shorten
from logdriven_dagster.plugins.formats.models import ExcelSource
from logdriven_dagster.plugins.formats.reader import File, LibraryFilesReader

if TYPE_CHECKING:
    from openpyxl.workbook import Workbook
    from pyspark.sql.types import StructType

_NOT_EXCEL = "is not an Excel workbook (.xlsx, .xlsm)"
_SIGNS = {b"\xd0\xcf\x11\xe0": "it is an older .xls file or encrypted; save it as .xlsx"}
_DIGITS = 15
"""The digits of a number that Excel shows and keeps."""
_LAST_WHOLE = 10**_DIGITS
_LARGEST_FLOAT = (2 - 2**-23) * 2.0**127
_BITS = {"byte": 8, "short": 16, "integer": 32, "long": 64}
_AS_DIGITS = frozenset({"General", "0", "@"})
"""Formats in which Excel shows a whole number as its digits."""
_FIRST_DAY = datetime(1900, 3, 1)
"""The first day after Excel's 29 February 1900, which does not exist."""
_MIDNIGHT = time()
_ESCAPED = re.compile("_x([0-9A-Fa-f]{4})_")
"""A character that XML cannot hold, which openpyxl leaves as it is written."""
_DAMAGED = (BadZipFile, KeyError, ValueError, TypeError, IndexError, AttributeError, EOFError)
"""Errors that openpyxl raises for a file that it cannot read."""
_FORMULA = re.compile(rb"<(\w+:)?f[ />]")
_LONGEST_TAG = 100
_WORKBOOK = "xl/workbook.xml"
_COMPUTE_ON_LOAD = re.compile(rb'fullCalcOnLoad="(1|true)"')
_CHUNK = 1 << 20
_FIX = "open and save it in Excel"


class ExcelReader(LibraryFilesReader):
    """Reader of a sheet of each workbook."""

    extra, library = "excel", "openpyxl"

    def get_columns(
        self, reading: Reading, source: ExcelSource, files: Callable[[], list[File]]
    ) -> "StructType":
        _ = files
        return mode_of(reading.spark).parse_columns(source.columns)

    def get_record_reader(
        self, source: ExcelSource, columns: "StructType", zone: str
    ) -> Callable[[BinaryIO, str], Iterator[Record]]:
        names = tuple(field.name for field in columns.fields)
        converters = []
        for field in columns.fields:
            if (converter := _find_converter(field.dataType, zone)) is None:
                raise TerminalStepError(
                    f"columns: a cell cannot be {sql_type(field.dataType)}, the type of "
                    f"{field.name}; write STRING, and CAST it in the query"
                )
            converters.append(converter)
        layout = _Layout(source.sheet, source.header_row, source.last_row)
        return partial(_read_records, layout, names, converters)


class _Formulas(Enum):
    """State of the formulas of a workbook."""

    NONE = "none"
    COMPUTED = "computed"
    STALE = "stale"
    """Excel must compute them when it opens the file: XlsxWriter stores 0 for each."""


class _Layout(NamedTuple):
    """Place of the rows in a workbook; workers need no model for it."""

    sheet: str | None
    header_row: int | None
    last_row: int | None


Converter = Callable[[Any, Any], Any]
"""Converts the value of a cell that is given with it; ValueError with a problem."""


def _read_records(
    layout: _Layout, names: Sequence[str], converters: Sequence[Converter], *given: Any
) -> Iterator[Record]:
    stream, file = given
    books = [_open_workbook(stream, file, data_only=True)]
    formulas = _find_formulas(stream)
    if formulas is not _Formulas.NONE:
        books.append(_open_workbook(stream, file))
    number = 0
    try:
        sheets = [_find_sheet(book, layout.sheet, file) for book in books]
        where = f"sheet {sheets[0].title}"
        rows = zip_longest(*(_rows(sheet, layout) for sheet in sheets), fillvalue=())
        for number, (cells, *others) in enumerate(rows, 1):
            if number == layout.header_row:
                _refuse_other_names(cells, names, f"{file}, {where}, row {number}")
            if number <= (layout.header_row or 0):
                continue
            values, problems = _convert_row(
                cells, others[0] if others else (), names, converters, formulas
            )
            if values or problems:
                yield Record(values, f"{where}, row {number}", problems)
    except _DAMAGED as error:
        raise TerminalStepError(
            f"{file}, after row {number}: openpyxl cannot read the sheet ({error}); {_FIX}"
        ) from None
    finally:
        for book in books:
            book.close()


def _open_workbook(stream: BinaryIO, file: str, *, data_only: bool = False) -> "Workbook":
    from openpyxl import load_workbook
    from openpyxl.utils.exceptions import InvalidFileException

    stream.seek(0)
    start = stream.read(4)
    stream.seek(0)
    if start in _SIGNS:
        raise TerminalStepError(f"{file} {_NOT_EXCEL}: {_SIGNS[start]}")
    try:
        return load_workbook(stream, read_only=True, data_only=data_only, keep_links=False)
    except (InvalidFileException, *_DAMAGED) as error:
        problem = f"{_NOT_EXCEL}, or openpyxl cannot read it ({error}); {_FIX}"
        raise TerminalStepError(f"{file} {problem}") from None


def _find_formulas(stream: BinaryIO) -> _Formulas:
    """Return the state of the formulas, since openpyxl reads either formulas or their values."""
    with ZipFile(stream) as parts:
        for name in parts.namelist():
            if "worksheets/" in name and name.endswith(".xml") and _contains_formula(parts, name):
                is_stale = _COMPUTE_ON_LOAD.search(parts.read(_WORKBOOK)) is not None
                return _Formulas.STALE if is_stale else _Formulas.COMPUTED
    return _Formulas.NONE


def _contains_formula(parts: ZipFile, name: str) -> bool:
    with parts.open(name) as part:
        end = b""
        while chunk := part.read(_CHUNK):
            if _FORMULA.search(end + chunk):
                return True
            end = chunk[-_LONGEST_TAG:]
    return False


def _find_sheet(book: "Workbook", name: str | None, file: str) -> Any:
    names = [sheet.title for sheet in book.worksheets]
    if name is None and len(names) == 1:
        name = names[0]
    if name in names:
        sheet = book[name]
        # Some writers give a size that is too small.
        sheet.reset_dimensions()
        return sheet
    problem = f"has no sheet {name}" if name else "has several sheets; set sheet to one of them"
    raise TerminalStepError(f"{file} {problem}: {', '.join(names)}")


def _rows(sheet: Any, layout: _Layout) -> Iterator[Sequence[Any]]:
    found: Iterator[Sequence[Any]] = sheet.iter_rows(min_row=1, max_row=layout.last_row)
    return found


def _refuse_other_names(cells: Sequence[Any], names: Sequence[str], place: str) -> None:
    found = [str(cell.value).strip() if cell.value is not None else "" for cell in cells]
    while found and not found[-1]:
        found.pop()
    if found != list(names):
        raise TerminalStepError(
            f"{place}: the names are {', '.join(found) or 'empty'}, the columns are "
            f"{', '.join(names)}; write the same names in columns, or set header_row"
        )


def _convert_row(
    cells: Sequence[Any],
    written: Sequence[Any],
    names: Sequence[str],
    converters: Sequence[Converter],
    formulas: _Formulas,
) -> tuple[dict[str, Any], dict[str, str]]:
    """Return the values of a row by column, without empty cells, and the problems of cells."""
    values, problems = dict[str, Any](), dict[str, str]()
    for number, (cell, formula) in enumerate(zip_longest(cells, written)):
        value, is_formula = getattr(cell, "value", None), getattr(formula, "data_type", "") == "f"
        if value is None and not is_formula:
            continue
        place = cell.coordinate if value is not None else formula.coordinate
        if number >= len(names):
            problems[names[-1]] = f"is the last one, but cell {place} holds {shorten(value)}"
            continue
        try:
            is_missing = is_formula and formulas is _Formulas.STALE
            known = None if is_missing else value
            values[names[number]] = _convert_cell(cell, known, converters[number])
        except ValueError as problem:
            problems[names[number]] = f"in cell {place} {problem}"
    return values, problems


def _convert_cell(cell: Any, value: Any, convert: Converter) -> Any:
    """Convert the value of a cell that is not empty; `value` is None if its formula has none."""
    if value is None:
        raise ValueError("is a formula without a stored value; open and save the file in Excel")
    if cell.data_type == "e":
        raise ValueError(f"holds the error {value}")
    return convert(value, cell)


def _find_converter(kind: Any, zone: str) -> Converter | None:
    """Return the conversion of cells to a type; None for a type that cells cannot have."""
    from pyspark.sql import types as ty

    match kind:
        case ty.StringType():
            return _to_text
        case ty.BooleanType():
            return _to_boolean
        case ty.ByteType() | ty.ShortType() | ty.IntegerType() | ty.LongType():
            return partial(_to_whole, sql_type(kind), _BITS[kind.typeName()])
        case ty.FloatType() | ty.DoubleType():
            largest = _LARGEST_FLOAT if isinstance(kind, ty.FloatType) else sys.float_info.max
            return partial(_to_real, sql_type(kind), largest)
        case ty.DecimalType():
            return partial(_to_decimal, kind.precision, kind.scale)
        case ty.DateType():
            return _to_date
        case ty.TimestampNTZType():
            return partial(_to_time, "TIMESTAMP_NTZ")
        case ty.TimestampType():
            return partial(_to_instant, ZoneInfo(zone))
        case _:
            return None


def _to_text(value: Any, cell: Any) -> str:
    if isinstance(value, str):
        return _ESCAPED.sub(lambda found: chr(int(found[1], 16)), value)
    if _is_number(value) and cell.number_format in _AS_DIGITS and _is_whole(value):
        return str(int(value))
    raise ValueError(f"holds {shorten(value)}, which is not a text; write its type in columns")


def _to_boolean(value: Any, _: Any) -> bool:
    if isinstance(value, bool):
        return value
    raise _misfit(value, "BOOLEAN")


def _to_whole(name: str, bits: int, value: Any, _: Any) -> int:
    if _is_number(value) and _is_whole(value) and -(2 ** (bits - 1)) <= value < 2 ** (bits - 1):
        return int(value)
    raise _misfit(value, name)


def _to_real(name: str, largest: float, value: Any, _: Any) -> float:
    if _is_number(value) and abs(value) <= largest:
        return float(value)
    raise _misfit(value, name)


def _to_decimal(precision: int, scale: int, value: Any, _: Any) -> Decimal:
    name = f"DECIMAL({precision},{scale})"
    if not _is_number(value):
        raise _misfit(value, name)
    if not abs(value) < _LAST_WHOLE:
        raise _misfit(value, name)
    number = Decimal(f"{value:.{_DIGITS}g}")
    exact = number.quantize(Decimal(1).scaleb(-scale))
    if exact != number or abs(exact) >= 10 ** (precision - scale):
        raise _misfit(value, name)
    return exact


def _to_date(value: Any, _: Any) -> date:
    found = _to_time("DATE", value, None)
    if found.time() != _MIDNIGHT:
        raise _misfit(value, "DATE")
    return found.date()


def _to_time(name: str, value: Any, _: Any) -> datetime:
    if not isinstance(value, datetime):
        raise _misfit(value, name)
    if value < _FIRST_DAY and value.year == _FIRST_DAY.year:
        raise ValueError(f"holds {value}, and Excel counts days before March 1900 wrongly")
    return value


def _to_instant(zone: ZoneInfo, value: Any, _: Any) -> datetime:
    local = _to_time("TIMESTAMP", value, None)
    instant = local.replace(tzinfo=zone).astimezone(timezone.utc)
    if instant.astimezone(zone).replace(tzinfo=None) != local:
        raise ValueError(f"holds {local}, not a valid TIMESTAMP since clocks skip it")
    return instant


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _is_whole(value: float) -> bool:
    return value == int(value) and abs(value) < _LAST_WHOLE


def _misfit(value: Any, name: str) -> ValueError:
    shown = str(value) if isinstance(value, (date, time, timedelta)) else shorten(value)
    return ValueError(f"holds {shown}, not a valid {name}")
