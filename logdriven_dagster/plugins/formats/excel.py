"""Reading Excel workbooks with openpyxl: each cell by its own type, as Excel shows it."""

import re
import sys
import zlib
from collections.abc import Callable, Iterator, Sequence
from datetime import date, datetime, time, timedelta, timezone
from decimal import Decimal
from enum import Enum
from functools import partial
from itertools import zip_longest
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple, cast
from zipfile import BadZipFile, ZipFile
from zoneinfo import ZoneInfo

from logdriven_dagster.engine.queries.nested_values import sql_type
from logdriven_dagster.engine.sources.readers import Reading
from logdriven_dagster.engine.spark.modes import mode_of
from logdriven_dagster.errors import TerminalStepError
from logdriven_dagster.plugins.formats.batches import Record, format_clock, shorten
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
_FIRST_DAY_OF_1904 = datetime(1904, 1, 1)
_MIDNIGHT = time()
_NOT_SHOWN = re.compile(r'"[^"]*"|\\.|\[(?!h+\]|m+\]|s+\])[^\]]*\]', re.IGNORECASE)
"""Texts, colors and conditions in the format of a number."""
_ESCAPED = re.compile("_x([0-9A-Fa-f]{4})_")
"""A character that XML cannot hold, which openpyxl leaves as it is written."""
_NO_WORKBOOK = "no valid workbook part"
"""openpyxl's OSError for an archive that is not a workbook of XML, such as .xlsb."""
_DAMAGED = (
    *(BadZipFile, zlib.error, NotImplementedError, RuntimeError, EOFError),  # the archive
    *(SyntaxError, ValueError, OverflowError),  # its XML: ParseError is a SyntaxError
    *(KeyError, TypeError, IndexError, AttributeError),  # missing or unexpected parts
)
"""Errors that openpyxl raises for a file that it cannot read."""
_FORMULA = re.compile(rb"<([\w.-]+:)?f[\s/>]")
_COMPUTE_ON_LOAD = re.compile(rb"""<([\w.-]+:)?calcPr\s[^>]*fullCalcOnLoad=["'](1|true)""")
_LONGEST_TAG = 1000
_CHUNK = 1 << 20
_MICRO = 1_000_000
_FIX = "open it in Excel, and save it as an Excel workbook (.xlsx)"


class ExcelReader(LibraryFilesReader):
    """Reader of a sheet of each workbook."""

    extra, library = "excel", "openpyxl"

    def get_columns(
        self, reading: Reading, source: ExcelSource, files: Callable[[], list[File]]
    ) -> "StructType":
        _ = files
        return mode_of(reading.spark).parse_columns(source.columns)

    def get_record_reader(
        self, reading: Reading, source: ExcelSource, columns: "StructType"
    ) -> Callable[[BinaryIO, str], Iterator[Record]]:
        return build_record_reader(source, columns, str(reading.project.zone))


def build_record_reader(
    source: ExcelSource, columns: "StructType", zone: str
) -> Callable[[BinaryIO, str], Iterator[Record]]:
    """Return a function that yields the rows of a workbook.

    Raises TerminalStepError for a column of a type that cells cannot have.
    """
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
    number = 0
    try:
        formulas = _find_formulas(stream)
        if formulas is not _Formulas.NONE:
            books.append(_open_workbook(stream, file))
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
    from openpyxl.utils.exceptions import InvalidFileException

    stream.seek(0)
    start = stream.read(4)
    stream.seek(0)
    if start in _SIGNS:
        raise TerminalStepError(f"{file} {_NOT_EXCEL}: {_SIGNS[start]}")
    try:
        reader = _build_reader(stream, data_only=data_only)
        reader.read()
        return cast("Workbook", reader.wb)
    except (InvalidFileException, OSError, *_DAMAGED) as error:
        if isinstance(error, OSError) and _NO_WORKBOOK not in str(error):
            raise
        problem = f"{_NOT_EXCEL}, or openpyxl cannot read it ({error}); {_FIX}"
        raise TerminalStepError(f"{file} {problem}") from None


def _build_reader(stream: BinaryIO, *, data_only: bool) -> Any:
    """Return openpyxl's reader, which is `load_workbook`, with texts as they are written.

    openpyxl removes `x005F_` from texts: `_x005F_x000D_`, which stands for `_x000D_`, would be a
    line break.
    """
    from openpyxl.cell.text import Text
    from openpyxl.reader.excel import ExcelReader as Reader
    from openpyxl.xml.constants import SHARED_STRINGS, SHEET_MAIN_NS
    from openpyxl.xml.functions import iterparse

    class ReaderOfTexts(Reader):  # type: ignore[misc]
        def read_strings(self) -> None:
            if (part := self.package.find(SHARED_STRINGS)) is None:
                return
            with self.archive.open(part.PartName[1:]) as content:
                for _, node in iterparse(content):
                    if node.tag == f"{{{SHEET_MAIN_NS}}}si":
                        self.shared_strings.append(Text.from_tree(node).content)
                        node.clear()

    return ReaderOfTexts(stream, read_only=True, data_only=data_only, keep_links=False)


def _find_formulas(stream: BinaryIO) -> _Formulas:
    """Return the state of the formulas, since openpyxl reads either formulas or their values."""
    has_formulas = is_stale = False
    with ZipFile(stream) as parts:
        for name in parts.namelist():  # a sheet may have any name
            for chunk in _read_chunks(parts, name):
                has_formulas = has_formulas or _FORMULA.search(chunk) is not None
                is_stale = is_stale or _COMPUTE_ON_LOAD.search(chunk) is not None
    if not has_formulas:
        return _Formulas.NONE
    return _Formulas.STALE if is_stale else _Formulas.COMPUTED


def _read_chunks(parts: ZipFile, name: str) -> Iterator[bytes]:
    """Yield a part without the zeros of UTF-16; each tag is whole in one of the chunks."""
    with parts.open(name) as part:
        end = b""
        while chunk := part.read(_CHUNK):
            found = end + chunk.replace(b"\0", b"")
            yield found
            end = found[-_LONGEST_TAG:]


def _find_sheet(book: "Workbook", name: str | None, file: str) -> Any:
    names = [sheet.title for sheet in book.worksheets]
    if not names:
        raise TerminalStepError(
            f"{file}: openpyxl finds no sheet, as in a Strict Open XML workbook; {_FIX}"
        )
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
    if (clock := _find_clock(value, cell)) is not None:
        return clock
    raise ValueError(f"holds {shorten(value)}, which is not a text; write its type in columns")


def _find_clock(value: Any, cell: Any) -> str | None:
    """Return a time of day or a duration as a text such as `34:05:06.5`; None for other values."""
    if isinstance(value, time):
        if not re.search("[hs]", _NOT_SHOWN.sub("", cell.number_format), re.IGNORECASE):
            return None  # a format of days shows day 0
        value = datetime.combine(_FIRST_DAY, value) - _FIRST_DAY
    if not isinstance(value, timedelta) or value < timedelta():
        return None
    seconds, micros = divmod(value // timedelta(microseconds=1), _MICRO)
    return format_clock(seconds, f"{micros:06d}")


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


def _to_date(value: Any, cell: Any) -> date:
    found = _to_time("DATE", value, cell)
    if found.time() != _MIDNIGHT:
        raise _misfit(value, "DATE")
    return found.date()


def _to_time(name: str, value: Any, cell: Any) -> datetime:
    if not isinstance(value, date):
        raise _misfit(value, name)
    if not isinstance(value, datetime):  # written as a text of ISO 8601
        return datetime.combine(value, _MIDNIGHT)
    if value < _FIRST_DAY:
        raise ValueError(f"holds {value}, and Excel counts days before March 1900 wrongly")
    if value < _FIRST_DAY_OF_1904 and cell.parent.parent.epoch.year == _FIRST_DAY_OF_1904.year:
        raise ValueError(f"holds {value}, before the first day of its workbook, 1904-01-01")
    return value


def _to_instant(zone: ZoneInfo, value: Any, cell: Any) -> datetime:
    local = _to_time("TIMESTAMP", value, cell)
    instant = local.replace(tzinfo=zone).astimezone(timezone.utc)
    if instant.astimezone(zone).replace(tzinfo=None) != local:
        raise ValueError(f"holds {local}, not a valid TIMESTAMP since clocks skip it")
    return instant


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _is_whole(value: float) -> bool:
    return abs(value) < _LAST_WHOLE and value == int(value)


def _misfit(value: Any, name: str) -> ValueError:
    shown = str(value) if isinstance(value, (date, time, timedelta)) else shorten(value)
    return ValueError(f"holds {shown}, not a valid {name}")
