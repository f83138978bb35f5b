"""Parts of JSON records that Spark's reader ignores silently.

It drops fields that `columns` does not name, such as a renamed one, takes the last value of a key
that appears twice in an object, turns half a surrogate pair into a question mark, and reads only
the first object of a line. No option reports these, so one query reads the records as text, once
for each state of the files. It parses nested objects only where the columns have objects.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import unquote

from logdriven_dagster.config.models.types.files import JsonSource
from logdriven_dagster.config.models.types.sources import Source
from logdriven_dagster.engine.queries.quoting import quote_name, text_literal
from logdriven_dagster.engine.sources.files.json_texts import has_skipped_objects, parse_text
from logdriven_dagster.engine.sources.files.loading import (
    build_cache_key,
    list_versions,
    load_texts,
)
from logdriven_dagster.engine.sources.files.records import (
    parse_declared_columns,
    read_as,
    record_options,
)
from logdriven_dagster.engine.sources.files.texts import add_location, encoding_of, format_file
from logdriven_dagster.engine.sources.readers import Reading, values_of
from logdriven_dagster.engine.spark import functions as sf
from logdriven_dagster.engine.spark.actions import run_action
from logdriven_dagster.errors import TerminalStepError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row
    from pyspark.sql.types import DataType, StructType

_FIX_OF_FIELDS = "add it to columns, or ignore such fields with unknown_fields: ignore"
_FIX_OF_KEYS = "fix the file, or accept it with mode: PERMISSIVE, which reads the last value"
_PROBLEMS = {
    "field": f"is not in columns; {_FIX_OF_FIELDS}",
    "key": f"appears twice in one object; {_FIX_OF_KEYS}",
    "escape": "is half of a character, which Spark reads as a question mark; fix the "
    "file, or accept it with mode: PERMISSIVE",
    "text": "is not read by Spark; write each object in a line of its own",
}
_INFERRED = (
    "is not in the columns that Spark infers; write columns, or ignore such fields with "
    "unknown_fields: ignore"
)
_AFTER_END = "text after the end of the first JSON value"
_HIGH, _LOW = (rf"\\u[dD][{digits}][0-9a-fA-F]{{2}}" for digits in ("89abAB", "c-fC-F"))
_HALF = rf"(?<!\\)(?:\\\\)*({_HIGH}(?!{_LOW})|(?<!{_HIGH}){_LOW})"
"""An escape of one half of a surrogate pair, after an even number of backslashes."""


def refuse_keys(reading: Reading, source: Source, frame: "DataFrame") -> None:
    """Raise TerminalStepError for an unknown or repeated key in the window's records.

    An escape of half a character is refused, too, and several values in a line. `frame` is the
    source as it is read. If Spark infers its columns, a key is unknown that differs from another
    one in its case only, or that occurs only in records outside the sample.
    """
    if not isinstance(source, JsonSource):
        return
    if source.multiline:
        _refuse_several_documents(reading, source)
    columns = parse_declared_columns(source) or frame.schema
    if not (problems := _list_problems(source, columns)):
        return
    key, versions = build_cache_key(reading, source), list_versions(reading, source)
    what = (key, source.unknown_fields, columns.json())
    if reading.sources.are_trusted(what, versions):
        return
    found = load_texts(reading, source).selectExpr(
        "*", f"concat({', '.join(problems)}) AS problems", "_metadata.file_path AS file"
    )
    found = found.where("size(problems) > 0")
    label = f"{reading.run.table}: keys of {key.path}"
    rows = run_action(reading.spark, label, found.limit(1).collect)
    if not rows:
        reading.sources.trust(what, versions)
        return
    if name := source.window_name:
        instant = name if name in found.columns else f"parsed.{name}"
        found = _filter_by_window(reading, source, found, columns, instant)
        rows = run_action(reading.spark, label, found.limit(1).collect)
    if rows:
        raise TerminalStepError(_problem(source, rows[0], reading.project.storage))


def _refuse_several_documents(reading: Reading, source: JsonSource) -> None:
    """Raise TerminalStepError for a file with several documents; Spark reads only the first."""
    key, versions = build_cache_key(reading, source), list_versions(reading, source)
    what = (key, "documents")
    if reading.sources.are_trusted(what, versions):
        return
    found = load_texts(reading, source).where(has_skipped_objects(source))
    label = f"{reading.run.table}: documents of {key.path}"
    found = found.selectExpr("_metadata.file_path AS file").limit(1)
    for row in run_action(reading.spark, label, found.collect):
        raise TerminalStepError(
            f"{format_file(unquote(row['file']))}: the file has several JSON documents, but "
            "multiline: true reads only the first one; remove it if each line is a "
            "document, or write the documents as one list"
        )
    reading.sources.trust(what, versions)


def _problem(source: JsonSource, row: "Row", storage: Mapping[str, str]) -> str:
    first = row["value"].strip().partition("\n")[0].strip()
    problem = row["problems"][0]
    kind = problem.partition(" ")[0]
    fix = _INFERRED if kind == "field" and source.columns is None else _PROBLEMS[kind]
    files = [unquote(row["file"])]
    return add_location(
        files, f"{problem} {fix}", encoding_of(source), lambda line: line.strip() == first, storage
    )


def _filter_by_window(
    reading: Reading,
    source: JsonSource,
    found: "DataFrame",
    columns: "StructType",
    instant: str,
) -> "DataFrame":
    """Return the records of the window; a line with several records belongs to every window."""
    lenient = source.model_copy(update={"mode": "PERMISSIVE"})
    parsed = sf.from_json("value", read_as(lenient, columns), record_options(lenient))
    found = found.withColumn("parsed", parsed)
    within = values_of(reading, source, found, instant).lies_within(reading.run.window)
    several = f"ltrim(value) LIKE '[%' OR array_contains(problems, '{_AFTER_END}')"
    return found.where(f"coalesce({within}, true) OR {several}")


def _list_problems(source: JsonSource, columns: "StructType") -> list[str]:
    """Return SQL of arrays, each with problems of the record in `value`."""
    keys, found = _Keys(source), []
    if source.unknown_fields == "refuse" or (source.is_strict and source.columns):
        one = keys.of_text("value", columns, "")
        each = keys.of_elements("value", columns, "", 0)
        found.append(f"CASE WHEN ltrim(value) LIKE '[%' THEN {each} ELSE {one} END")
    if source.is_strict:
        found.append(_halves())
    if not source.multiline:
        skipped = has_skipped_objects(source)
        found.append(f"CASE WHEN {skipped} THEN array('{_AFTER_END}') ELSE array() END")
    return found


def _halves() -> str:
    """Return SQL of an array with the first escape in `value` that is half of a character."""
    some = " OR ".join(f"contains(value, {text_literal(each)})" for each in (r"\ud", r"\uD"))
    half = f"regexp_extract(value, {text_literal(_HALF)}, 1)"
    named = f"filter(array({half}), each -> each != '')"
    return f"CASE WHEN {some} THEN transform({named}, each -> 'escape ' || each) ELSE array() END"


@dataclass(frozen=True, slots=True)
class _Keys:
    """Builder of SQL for arrays of problems with the keys of a JSON text."""

    source: JsonSource

    def of_text(self, text: str, kind: "DataType", place: str, depth: int = 0) -> str:
        """Return the problems within a text that holds a value of the type."""
        from pyspark.sql import types as ty

        keys, found = f"keys{depth}", []
        if isinstance(kind, ty.ArrayType):
            return self.of_elements(text, kind.elementType, place, depth)
        if isinstance(kind, ty.StructType):
            found = self._of_struct(text, kind, place, depth)
        elif isinstance(kind, ty.MapType) and _has_keys(kind.valueType):
            values = f"map_values({parse_text(self.source, text, 'MAP<STRING, STRING>')})"
            found = [self._of_each(values, kind.valueType, place, depth)]
        if self.source.is_strict:
            found.append(_build_doubled_keys(keys, place))
        # Spark's own function is fast, but supports no reader options.
        others = f"map_keys({parse_text(self.source, text, 'MAP<STRING, STRING>')})"
        known = f"coalesce(json_object_keys({text}), {others}, array())"
        return _let(keys, known, f"concat({', '.join(found or ['array()'])})")

    def of_elements(self, text: str, kind: "DataType", place: str, depth: int) -> str:
        """Return the problems within a text that holds an array of values of the type."""
        return self._of_each(parse_text(self.source, text, "ARRAY<STRING>"), kind, place, depth)

    def _of_each(self, texts: str, kind: "DataType", place: str, depth: int) -> str:
        text = f"text{depth}"
        of_each = self.of_text(text, kind, place, depth + 1)
        return f"coalesce(flatten(transform({texts}, {text} -> {of_each})), array())"

    def _of_struct(self, text: str, kind: "StructType", place: str, depth: int) -> list[str]:
        """Return the unknown fields, and the problems within the known ones."""
        found, fields = [], f"fields{depth}"
        if self.source.unknown_fields == "refuse":
            names = ", ".join(text_literal(field.name) for field in kind.fields)
            found.append(_add_label("field", f"array_except(keys{depth}, array({names}))", place))
        nested = [field for field in kind.fields if _has_keys(field.dataType)]
        if nested:
            columns = ", ".join(f"{quote_name(field.name)} STRING" for field in nested)
            within = [
                self.of_text(
                    f"{fields}.{quote_name(f.name)}", f.dataType, f"{place}{f.name}.", depth + 1
                )
                for f in nested
            ]
            parsed = parse_text(self.source, text, f"STRUCT<{columns}>")
            found.append(_let(fields, parsed, f"concat({', '.join(within)})"))
        return found


def _let(name: str, value: str, body: str) -> str:
    """Return the body with `name` bound to a value that is computed once."""
    return f"transform(array({value}), {name} -> {body})[0]"


def _build_doubled_keys(keys: str, place: str) -> str:
    doubled = f"array_distinct(filter({keys}, (k, i) -> array_position({keys}, k) <= i))"
    is_so = f"size(array_distinct({keys})) < size({keys})"
    return f"CASE WHEN {is_so} THEN {_add_label('key', doubled, place)} ELSE array() END"


def _add_label(what: str, keys: str, place: str) -> str:
    return f"transform({keys}, k -> {text_literal(f'{what} {place}')} || k)"


def _has_keys(kind: "DataType") -> bool:
    """Return True if values of a type contain an object at any depth."""
    from pyspark.sql import types as ty

    if isinstance(kind, ty.ArrayType):
        return _has_keys(kind.elementType)
    return isinstance(kind, ty.MapType | ty.StructType)
