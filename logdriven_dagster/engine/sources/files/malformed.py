"""Location of a record that a strict source refused: file, line, column and value.

Spark names the file, and a row without the bad value. So the file is read again, only after a
failure.
"""

import csv
import io
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from logdriven_dagster.config.models.types.files import CsvSource, JsonSource, RecordsSource
from logdriven_dagster.engine.queries.quoting import quote_name
from logdriven_dagster.engine.queries.window_values import window_values
from logdriven_dagster.engine.sources.files.records import (
    CORRUPT,
    parse_declared_columns,
    read_as,
    record_options,
)
from logdriven_dagster.engine.sources.files.text_values import (
    INFERRED,
    LOST_DIGITS,
    MISFIT,
    REPLACEMENT,
    SKIPPED,
    UNDECODABLE,
)
from logdriven_dagster.engine.sources.files.texts import (
    add_location,
    decodes,
    encoding_of,
    escape_unprintable,
    format_file,
    short,
)
from logdriven_dagster.engine.spark.actions import run_action
from logdriven_dagster.engine.spark.errors import JvmException
from logdriven_dagster.engine.spark.jvm_errors import list_jvm_errors
from logdriven_dagster.engine.storage.locations import literal_path
from logdriven_dagster.model.windows import TimeWindow

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.types import StructType

_FILE = re.compile(r"Encountered error while reading file (\S+?)\.?(?:\s|$)")
_HEADER = re.compile(r"Header: (.*)\n Schema: (.*)\n")
_HEADER_LENGTH = re.compile(r"Header length: (\d+), schema size: (\d+)")
_QUOTE = re.compile(r"Unescaped quote character.*content parsed=([^\n]*)", re.DOTALL)
_MISFIT = re.compile(
    rf"column [^\n]* holds (?:'(?P<text>[^\n]*)'|(?P<shown>[^\n]*)){MISFIT} "
    rf"[a-z0-9(),_<>:]+(?:{SKIPPED}|{LOST_DIGITS}|{INFERRED})?"
)
_UNDECODABLE = re.compile(rf"column [^\n]* {UNDECODABLE}")
_DECODING = re.compile("MALFORMED_CHARACTER_CODING|UnmappableCharacter|MalformedInputException")
"""Errors for bytes that cannot be decoded, as the keys of JSON are read or columns are inferred."""
_MOST_RECORDS = 100
_FIX = "fix the file, or accept it with mode: PERMISSIVE, which counts malformed records"
_FIX_OF_BYTES = "fix the file, or set its encoding, as in options: {encoding: windows-1252}"
_OTHER_ENCODING = "its text is not UTF-8"
_OF_HEADER = "line 1: the header"
_WITHIN_QUOTES = "the line ends within quotes"
_OVER_LINES = "as if it continued in the next line"
_DECIMAL_COMMA = re.compile(rf"holds .*\d,\d.*{MISFIT} [a-z<:_,]*decimal")
_FIX_OF_COMMAS = (
    f"set the number format, as in options: {{locale: de-DE}} for decimal commas, or {_FIX}"
)
_FIX_OF_HEADERS = (
    "use the column names of all files, or read columns by position with "
    "options: {enforceSchema: true}"
)


@dataclass(frozen=True, slots=True)
class Suspect:
    """A strict text source that was being read when a step failed."""

    spark: "SparkSession"
    source: RecordsSource
    window: TimeWindow
    files: Callable[[], Sequence[str]]
    """The locations of all of its files."""
    storage: Mapping[str, str]
    """The project's settings of object stores."""

    def refusal(self, error: Exception) -> str | None:
        """Return the problem of the record that caused the error; None if no record did.

        Control characters of the record are escaped. In a source that is not strict, only bytes
        that cannot be decoded stop a query.
        """
        thrown = list_jvm_errors(error)
        if self.source.is_strict:
            problem = self._problem(thrown)
            return f"{escape_unprintable(problem)}; {_fix(problem)}" if problem else None
        problem = self._of_bytes(thrown)
        return f"{escape_unprintable(problem)}; {_FIX_OF_BYTES}" if problem else None

    def _problem(self, thrown: Sequence[JvmException]) -> str | None:
        text = "\n".join(each.message for each in thrown)
        if problem := self._of_bytes(thrown):
            return problem
        if problem := self._of_header(text):
            return problem
        problem = self._of_values(text) or self._of_records(text)
        if problem is None and len(thrown) == 1 and (known := _FILE.search(text)):
            # An unreadable file has a cause; Connect loses it if the cause has no message.
            problem = self._of_record(unquote(known[1]), text)
        return problem

    def is_decodable(self) -> bool:
        """Return True if every byte of the files is valid in their encoding."""
        return all(decodes(file, encoding_of(self.source), self.storage) for file in self.files())

    def _of_values(self, text: str) -> str | None:
        """Return the problem that `records.check_values` raised, with the location of the value."""
        if found := _UNDECODABLE.search(text):
            return self._add_location(self.files(), found[0], lambda line: REPLACEMENT in line)
        if found := _MISFIT.search(text):
            return self._add_location(self.files(), found[0], _holds(found["text"], found["shown"]))
        return None

    def _of_bytes(self, thrown: Sequence[JvmException]) -> str | None:
        """Return the problem of bytes that cannot be decoded, with the location of their line."""
        if not any(_DECODING.search(f"{each.name} {each.message}") for each in thrown):
            return None
        problem = f"the line {UNDECODABLE}"
        return self._add_location(self.files(), problem, lambda line: REPLACEMENT in line)

    def _of_header(self, text: str) -> str | None:
        if (known := _FILE.search(text)) is None:
            return None
        file = format_file(unquote(known[1]))
        if found := _HEADER.search(text):
            return f"{file}, {_OF_HEADER} is {found[1]}, the columns are {found[2]}"
        if found := _HEADER_LENGTH.search(text):
            return f"{file}, {_OF_HEADER} has {found[1]} names for {found[2]} columns"
        return None

    def _of_records(self, text: str) -> str | None:
        """Return the problem that Spark's parsers raised, with the name of the file."""
        if (known := _FILE.search(text)) is None:
            return self._of_inference(text)
        file = unquote(known[1])
        if found := _QUOTE.search(text):
            problem = f"a quote after {short(found[1])} neither ends the value nor is doubled"
            return self._add_location([file], problem, lambda line: f'"{found[1]}"' in line)
        if "MALFORMED_RECORD_IN_PARSING" not in text:
            return None
        return (
            self._of_record(file, text)
            or f"{format_file(file)}: a record does not match the columns"
        )

    def _of_inference(self, text: str) -> str | None:
        """Return the problem of the first malformed record, where Spark inferred the columns."""
        if self.source.columns or "MALFORMED_RECORD" not in text:
            return None
        problems = (self._of_record(file, text) for file in self.files())
        return next((problem for problem in problems if problem), None)

    def _of_record(self, file: str, text: str) -> str | None:
        """Find the record to which the value or text in Spark's error belongs."""
        columns = self._columns(file)
        found = [
            (record, *self._finding(record, row, columns))
            for record, row in self._find_malformed(file, columns)
        ]
        blamed = [each for each in found if each[0] in text or (each[2] and each[2] in text)]
        for record, problem, _ in blamed or found:
            first = record.strip().partition("\n")[0].strip()
            return self._add_location(
                [file],
                problem,
                lambda line, first=first: line.strip() == first,  # type: ignore[misc]
            )
        return None

    def _columns(self, file: str) -> "StructType":
        given = parse_declared_columns(self.source)
        return given or self._reader().load(literal_path(file)).schema

    def _find_malformed(
        self, file: str, columns: "StructType"
    ) -> Iterator[tuple[str, Mapping[str, Any]]]:
        """Yield malformed records of a file, with True for each column that has a value."""
        lenient = self.source.model_copy(update={"mode": "PERMISSIVE"})
        frame = self._reader().schema(read_as(lenient, columns)).load(literal_path(file))
        frame = frame.where(f"{quote_name(CORRUPT)} IS NOT NULL")
        names = [field.name for field in columns.fields if field.name != CORRUPT]
        # Python has no value for some types.
        read = [f"nullif({name} IS NOT NULL, false) AS {name}" for name in map(quote_name, names)]
        if column := self.source.window_column:
            values = window_values(column, frame, self.window.zone)
            frame = frame.where(f"coalesce({values.lies_within(self.window)}, true)")
        label = f"{format_file(file)}: malformed records"
        frame = frame.selectExpr(quote_name(CORRUPT), *read).limit(_MOST_RECORDS)
        for row in run_action(self.spark, label, frame.collect):
            values = row.asDict()
            yield values.pop(CORRUPT), values

    def _reader(self) -> Any:
        lenient: Any = self.source.model_copy(update={"mode": "PERMISSIVE"})
        return self.spark.read.format(lenient.type).options(**record_options(lenient))

    def _finding(
        self, record: str, row: Mapping[str, Any], columns: "StructType"
    ) -> tuple[str, str | None]:
        """Return the problem of a record, and the value that causes it."""
        try:
            values = self._values(record, [field.name for field in columns.fields])
        except ValueError as problem:
            return str(problem), None
        empty = getattr(self.source, "null_value", None)
        for field in columns.fields:
            value, kind = values.get(field.name), field.dataType.simpleString()
            if value in (None, empty) or row.get(field.name) is not None:
                continue
            if value != "" or isinstance(self.source, JsonSource):
                return (
                    f"column {field.name} holds {short(value)}, not a valid {kind}",
                    value,
                )
        if any(value == "" for value in values.values()) and empty is None:
            return 'an empty text in quotes cannot be read; null_value: "" makes it NULL', None
        return f"{short(record)} does not match the columns", None

    def _values(self, record: str, names: Sequence[str]) -> Mapping[str, str | None]:
        """Return the texts of a record by column; ValueError if the record cannot be split."""
        if isinstance(self.source, JsonSource):
            values = _parse(record)
            texts = {name: values.get(name) for name in names}
            return {
                name: value if value is None or isinstance(value, str) else json.dumps(value)
                for name, value in texts.items()
            }
        tokens = self._tokens(record)
        if len(tokens) != len(names):
            numbers = f"{len(tokens)} values for {len(names)} columns"
            ends = f", and {_WITHIN_QUOTES}" if record.count('"') % 2 else ""
            raise ValueError(f"{short(record.rstrip())} has {numbers}{ends}")
        return dict(zip(names, tokens, strict=True))

    def _tokens(self, record: str) -> Sequence[str]:
        assert isinstance(self.source, CsvSource)
        if len(self.source.sep) != 1:
            return record.split(self.source.sep)
        csv.field_size_limit(max(csv.field_size_limit(), len(record)))
        return next(csv.reader(io.StringIO(record), delimiter=self.source.sep), [])

    def _add_location(
        self, files: Sequence[str], problem: str, is_it: Callable[[str], bool]
    ) -> str:
        return add_location(files, problem, encoding_of(self.source), is_it, self.storage)


def _fix(problem: str) -> str:
    """Return the fix for a problem."""
    if f"the line {UNDECODABLE}" in problem:
        return _FIX_OF_BYTES
    if _OF_HEADER in problem:
        return _FIX_OF_HEADERS
    if _DECIMAL_COMMA.search(problem):
        return _FIX_OF_COMMAS
    if INFERRED in problem:
        return "set the type of the column in columns, such as STRING or DECIMAL(20, 0)"
    if _OTHER_ENCODING in problem:
        fix = 'options: {encoding: UTF-16LE, lineSep: "\\n"} reads it without a byte order mark'
        return f"write the file in UTF-8; {fix}"
    if _WITHIN_QUOTES in problem:
        return "options: {multiLine: true} reads values with line breaks"
    if _OVER_LINES in problem:
        return "multiline: true reads documents and lists over several lines"
    return _FIX


def _parse(record: str) -> Mapping[str, Any]:
    try:
        value = json.loads(record)
    except json.JSONDecodeError as error:
        problem = f"{error.msg} at character {error.pos + 1}"
        if "\x00" in record or "\ufffd" in record:
            raise ValueError(f"{short(record)} is not JSON, and {_OTHER_ENCODING}") from None
        over_lines = record.lstrip().startswith("[") or record.rstrip().endswith((",", "{"))
        hint = f", {_OVER_LINES}" if over_lines else ""
        raise ValueError(f"{short(record)} is not JSON: {problem}{hint}") from None
    if not isinstance(value, dict):
        raise ValueError(f"{short(record)} is not a JSON object")
    return value


def _holds(text: str | None, shown: str) -> Callable[[str], bool]:
    """Return a test for lines with the text, or with all numbers of the shown value."""
    if text is not None:
        return lambda line: text in line
    numbers = set(_numbers(shown))
    return lambda line: numbers <= set(_numbers(line))


def _numbers(line: str) -> Iterator[Decimal]:
    """Yield the numbers in a line."""
    for text in re.findall(r"[-+]?[0-9.]+(?:[eE][-+]?[0-9]+)?", line):
        try:
            yield Decimal(text)
        except InvalidOperation:
            continue
