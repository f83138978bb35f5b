"""Queries of steps that replace, cut and classify values of single fields.

Sources: Kettle, ReplaceString, StringCut, NumberRangeSet, NumberRangeRule, FieldSplitter,
SplitFieldToRows.
"""

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from logdriven_dagster.plugins.importers.drafts import UntranslatableError
from logdriven_dagster.plugins.importers.kettle.comparisons import (
    as_number,
    as_text,
    literal,
    quote,
)
from logdriven_dagster.plugins.importers.kettle.hops import read_text
from logdriven_dagster.plugins.importers.kettle.rows.models import Reading, RowStep

if TYPE_CHECKING:
    from xml.etree.ElementTree import Element

_SQL = "write it in the query of the input"
_OF_TWO_UNITS = r"[\x{10000}-\x{10FFFF}]"
"""Characters that Java counts twice."""


def list_changed(step: RowStep, before: Sequence[str]) -> list[str]:
    """Return the fields after a step that adds fields, or changes some of those before it."""
    if step.kind == "NumberRange":
        return [*before, read_text(step.element, "outputField")]
    fields = step.element.iterfind("fields/field")
    return [*before, *(name for each in fields if (name := read_text(each, "out_stream_name")))]


def replace_texts(step: RowStep, reading: Reading, _: Mapping[str, RowStep]) -> str:
    """Return the query of Replace in string for plain texts, which replaces one after the other."""
    changed: dict[str, str] = {}
    added: dict[str, str] = {}
    for field in step.element.iterfind("fields/field"):
        name = read_text(field, "in_stream_name")
        value = _replace(step.name, field, changed.get(name, as_text(quote(name))))
        new = read_text(field, "out_stream_name")
        if new:
            added[new] = value
        else:
            changed[name] = value
    return _select(step, reading, changed, added)


def _replace(step: str, field: "Element", value: str) -> str:
    for flag in ("use_regex", "whole_word"):
        if read_text(field, flag).lower() in ("yes", "y"):
            raise UntranslatableError(f"{step}: {flag} is set; {_SQL}")
    old, new = (field.findtext(each) or "" for each in ("replace_string", "replace_by_string"))
    if read_text(field, "replace_field_by_string") or not old or "\\" in old + new or "$" in new:
        raise UntranslatableError(
            f"{step}: it replaces by a field, or its texts are empty or contain $ or \\; {_SQL}"
        )
    is_exact = read_text(field, "case_sensitive").lower() in ("yes", "y")
    is_unicode = read_text(field, "is_unicode").lower() in ("yes", "y")
    flags = ("" if is_exact else "i") + ("U" if is_unicode else "")
    pattern = (f"(?{flags})" if flags else "") + _quote_pattern(old)
    if new or read_text(field, "set_empty_string").upper() == "Y":
        return f"nullif(regexp_replace({value}, {literal(pattern)}, {literal(new)}), '')"
    # Without a new text, Kettle only removes values that are equal to the old one as a whole.
    whole = literal(pattern.replace("\\Q", "\\A\\Q", 1) + "\\z")
    return f"IF({value} RLIKE {whole}, NULL, {value})"


def _quote_pattern(text: str) -> str:
    """Return a regular expression that matches a text without backslashes."""
    return f"\\Q{text}\\E"


def cut_texts(step: RowStep, reading: Reading, _: Mapping[str, RowStep]) -> str:
    """Return the query of Strings cut: the characters of a range, or the last ones."""
    changed: dict[str, str] = {}
    added: dict[str, str] = {}
    for field in step.element.iterfind("fields/field"):
        name, new = read_text(field, "in_stream_name"), read_text(field, "out_stream_name")
        if not new and name in changed:
            raise UntranslatableError(f"{step.name}: it changes {name} twice; {_SQL}")
        (added if new else changed)[new or name] = _cut(step.name, field, name)
    return _select(step, reading, changed, added)


def _cut(step: str, field: "Element", name: str) -> str:
    bounds = [read_text(field, each) or "0" for each in ("cut_from", "cut_to")]
    if any(re.fullmatch(r"-?[0-9]{1,9}", each) is None for each in bounds):
        raise UntranslatableError(f"{step}: {name} is cut at {' and '.join(bounds)}; {_SQL}")
    start, end = map(int, bounds)
    value = as_text(quote(name))
    problem = literal(f"{name} has characters that Java counts as two; cut it in SQL")
    counted = f"IF({value} RLIKE {literal(_OF_TWO_UNITS)}, raise_error({problem}), {value})"
    if 0 <= start <= end and end:
        return f"nullif(substring({counted}, {start + 1}, {end - start}), '')"
    if start == 0 and end < 0:
        return f"right({counted}, {-end})"
    if start == end == 0:
        return value
    raise UntranslatableError(f"{step}: {name} is cut from {start} to {end}; {_SQL}")


def classify(step: RowStep, reading: Reading, _: Mapping[str, RowStep]) -> str:
    """Return the query of Number range: the texts of all ranges with the number, else one text."""
    element = step.element
    number = f"CAST({as_number(quote(read_text(element, 'inputField')))} AS DOUBLE)"
    found = []
    for rule in element.iterfind("rules/rule"):
        try:
            bounds = [
                float(text)
                for each in ("lower_bound", "upper_bound")
                if (text := read_text(rule, each))
            ]
        except ValueError:
            raise UntranslatableError(f"{step.name}: a bound is not a number; {_SQL}") from None
        if len(bounds) != 2:
            raise UntranslatableError(f"{step.name}: a range has no bound; {_SQL}")
        low, high = (f"CAST('{each!r}' AS DOUBLE)" for each in bounds)
        if value := rule.findtext("value"):
            found.append(f"IF({number} >= {low} AND {number} < {high}, {literal(value)}, NULL)")
    if not found:
        raise UntranslatableError(f"{step.name}: it has no ranges with a value; {_SQL}")
    fallback = element.findtext("fallBackValue")
    otherwise = literal(fallback) if fallback else "NULL"
    texts = f"coalesce(nullif(concat_ws(',', {', '.join(found)}), ''), {otherwise})"
    return _select(step, reading, {}, {read_text(element, "outputField"): texts})


def split_field(step: RowStep, reading: Reading, _: Mapping[str, RowStep]) -> str:
    """Return the query of Split fields: the parts of a text, in the place of its field."""
    element = step.element
    name = read_text(element, "splitfield")
    delimiter = element.findtext("delimiter") or ""
    if not delimiter or "\\" in delimiter or element.findtext("enclosure"):
        raise UntranslatableError(f"{step.name}: it has no delimiter, or an enclosure; {_SQL}")
    parts = f"split({as_text(quote(name))}, {literal(_quote_pattern(delimiter))}, -1)"
    added = {}
    for n, field in enumerate(element.findall("fields/field")):
        new = read_text(field, "name")
        settings = [read_text(field, each) for each in ("id", "nullif", "format")]
        plain = read_text(field, "trimtype").lower() in ("", "none")
        is_text = read_text(field, "type") == "String"
        if (
            any(settings)
            or not plain
            or not is_text
            or read_text(field, "length") not in ("", "-1")
        ):
            raise UntranslatableError(
                f"{step.name}: {new} has an identifier, a format, a length, a trim or another type "
                f"than String; {_SQL}"
            )
        value = f"nullif(get({parts}, {n}), '')"
        if default := field.findtext("ifnull"):
            value = f"coalesce({value}, {literal(default)})"
        added[new] = value
    return _select(step, reading, {}, added, removed=name)


def list_split(step: RowStep, before: Sequence[str]) -> list[str]:
    """Return the fields after Split fields."""
    name = read_text(step.element, "splitfield").lower()
    new = [read_text(each, "name") for each in step.element.iterfind("fields/field")]
    return [each for each in before if each.lower() != name] + new


def split_to_rows(step: RowStep, reading: Reading, _: Mapping[str, RowStep]) -> str:
    """Return the query of Split field to rows: one row for each part, one for an empty text."""
    element = step.element
    delimiter = element.findtext("delimiter") or ""
    is_pattern = read_text(element, "delimiter_is_regex").upper() == "Y"
    is_numbered = read_text(element, "rownum").upper() == "Y"
    if not delimiter or (not is_pattern and "\\" in delimiter) or "$[" in delimiter:
        raise UntranslatableError(f"{step.name}: it has no plain delimiter; {_SQL}")
    if is_numbered and read_text(element, "resetrownumber").upper() != "Y":
        raise UntranslatableError(
            f"{step.name}: it numbers the parts of all rows, whose order is not known; {_SQL}"
        )
    new = list_split_to_rows(step, ())
    known = {each.lower() for each in reading.columns.get(step.sources[0]) or ()}
    if taken := [name for name in new if name.lower() in known]:
        raise UntranslatableError(f"{step.name}: its input has a field {taken[0]} already; use SQL")
    pattern = literal(delimiter if is_pattern else _quote_pattern(delimiter))
    text = f"coalesce({as_text(quote(read_text(element, 'splitfield')))}, '')"
    parts = f"transform(split({text}, {pattern}, -1), part -> nullif(part, ''))"
    source = reading.get_source(step)
    if not is_numbered:
        return f"SELECT *, explode({parts}) AS {quote(new[0])}\nFROM {source}"
    return (
        f"SELECT * EXCEPT (`part number`), CAST(`part number` + 1 AS BIGINT) AS {quote(new[1])}\n"
        f"FROM (SELECT *, posexplode({parts}) AS (`part number`, {quote(new[0])}) FROM {source})"
    )


def list_split_to_rows(step: RowStep, before: Sequence[str]) -> list[str]:
    """Return the fields after Split field to rows."""
    numbered = read_text(step.element, "rownum").upper() == "Y"
    number = [read_text(step.element, "rownum_field")] if numbered else []
    return [*before, read_text(step.element, "newfield"), *number]


def _select(
    step: RowStep,
    reading: Reading,
    changed: Mapping[str, str],
    added: Mapping[str, str],
    *,
    removed: str = "",
) -> str:
    known = {each.lower() for each in reading.columns.get(step.sources[0]) or ()}
    if taken := [name for name in added if name.lower() in known - {removed.lower()}]:
        raise UntranslatableError(f"{step.name}: its input has a field {taken[0]} already; use SQL")
    gone = [*changed, *([removed] if removed else [])]
    kept = f"* EXCEPT ({', '.join(map(quote, gone))})" if gone else "*"
    values = [f"{value} AS {quote(name)}" for name, value in {**changed, **added}.items()]
    return f"SELECT {', '.join([kept, *values])}\nFROM {reading.get_source(step)}"
