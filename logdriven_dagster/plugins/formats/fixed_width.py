"""Reading lines of text whose columns are at fixed positions."""

from codecs import lookup, register_error
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from io import TextIOWrapper
from typing import TYPE_CHECKING, BinaryIO, NamedTuple

from logdriven_dagster.errors import TerminalStepError
from logdriven_dagster.plugins.formats.batches import Record
from logdriven_dagster.plugins.formats.models import FixedWidthSource
from logdriven_dagster.plugins.formats.texts import TextValuesReader

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

_BLANK = " "
_UNDECODABLE = "\udc80"
"""Placeholder for bytes outside the encoding: no encoding has a lone surrogate."""
_LONGEST_LINE = 1 << 20


class FixedWidthReader(TextValuesReader):
    """Reader of lines that are cut by positions."""

    def get_text_reader(
        self, source: FixedWidthSource, columns: "StructType"
    ) -> Callable[[BinaryIO, str], Iterator[Record]]:
        is_utf_8 = lookup(source.encoding).name == "utf-8"
        # A mark of UTF-8 at the start would move the columns.
        encoding = "utf-8-sig" if is_utf_8 else source.encoding
        positions = source.positions
        cuts = tuple((name, *cut) for name, cut in zip(columns.names, positions, strict=True))
        return partial(_read_lines, _Layout(cuts, encoding, source.header_lines))


class _Layout(NamedTuple):
    """Place of the values in a file; workers need no model for it."""

    cuts: Sequence[tuple[str, int, int]]
    """Name, start and end of each column."""
    encoding: str
    header_lines: int


def _read_lines(layout: _Layout, stream: BinaryIO, file: str) -> Iterator[Record]:
    register_error("logdriven_mark", lambda error: (_UNDECODABLE, error.end))  # type: ignore[attr-defined]
    text = TextIOWrapper(stream, layout.encoding, "logdriven_mark")
    lines = iter(partial(text.readline, _LONGEST_LINE), "")
    for number, line in enumerate(lines, 1):
        content = line.removesuffix("\n")
        if number > layout.header_lines and content:
            yield _cut_line(layout, content, file, f"line {number}")


def _cut_line(layout: _Layout, line: str, file: str, place: str) -> Record:
    """Return the values of a line without the blanks around them; blank values are left out.

    Raises TerminalStepError for a line with too few or too many characters.
    """
    end = layout.cuts[-1][2]
    length = max(len(line.rstrip(_BLANK)), min(len(line), end))
    if length != end:
        damage = f", and bytes that are not {layout.encoding}" * (_UNDECODABLE in line)
        raise TerminalStepError(
            f"{file}, {place}: the line has {length} characters, but the columns have {end}"
            f"{damage}; fix the file, or widths and encoding"
        )
    values, problems = {}, {}
    for name, start, stop in layout.cuts:
        value = line[start:stop].strip(_BLANK)
        if _UNDECODABLE in value:
            problems[name] = f"holds bytes that are not {layout.encoding}"
        elif value:
            values[name] = value
    return Record(values, place, problems)
