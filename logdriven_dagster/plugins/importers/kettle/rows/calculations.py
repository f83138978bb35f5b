"""Steps that compute fields of a row: Calculator, Concat fields, String operations, Null if.

Only what does not depend on types and formats that a file does not contain is translated. Texts
that are other types fail. Sources: Kettle, Calculator, ConcatFields, TextFileOutput,
StringOperations, NullIf, IfNull.
"""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from logdriven_dagster.plugins.importers.drafts import UntranslatableError
from logdriven_dagster.plugins.importers.kettle.comparisons import (
    as_text,
    literal,
    quote,
)
from logdriven_dagster.plugins.importers.kettle.hops import read_text

if TYPE_CHECKING:
    from xml.etree.ElementTree import Element

_SQL = "write it in the query of the input"
_SPACE = r"\p{javaWhitespace}+"
_TRIMS = {"left": f"^{_SPACE}", "right": f"{_SPACE}$", "both": f"^{_SPACE}|{_SPACE}$"}
_DIGITS = {"digits_only": r"\P{Nd}", "remove_digits": r"\p{Nd}"}
_SPECIAL = {"cr": "\r", "lf": "\n", "crlf": "\r\n", "tab": "\t", "espace": " "}
_CASES = {"upper": "upper", "lower": "lower"}
_PARTS = {
    "YEAR_OF_DATE": "year",
    "MONTH_OF_DATE": "month",
    "DAY_OF_MONTH": "dayofmonth",
    "DAY_OF_YEAR": "dayofyear",
    "QUARTER_OF_DATE": "quarter",
    "DAY_OF_WEEK": "dayofweek",
}
"""Functions of Spark for parts of dates; Sunday is day 1 of a week in both."""


def compute_fields(name: str, kind: str, element: "Element", relation: str) -> str:
    """Return the query of a step that computes fields. Raises UntranslatableError."""
    return _QUERIES[kind](name, element, relation)


def list_computed(kind: str, element: "Element") -> tuple[list[str], list[str]]:
    """Return the names of the fields that a step adds, and of those that it removes."""
    if kind == "ConcatFields":
        is_removing = read_text(element, "ConcatFields/removeSelectedFields").upper() == "Y"
        removed = [read_text(each, "name") for each in element.iterfind("fields/field")]
        return [read_text(element, "ConcatFields/targetFieldName")], removed if is_removing else []
    if kind == "Calculator":
        found = element.findall("calculation")
        kept = [each for each in found if read_text(each, "remove").upper() != "Y"]
        return [read_text(each, "field_name") for each in kept], []
    if kind == "StringOperations":
        new = [read_text(each, "out_stream_name") for each in element.iterfind("fields/field")]
        return [each for each in new if each], []
    return [], []


def _concat(name: str, element: "Element", relation: str) -> str:
    """Return the query of Concat fields: NULL is an empty text, and an empty result is NULL.

    A text with the separator or the enclosure is enclosed, unless this is disabled.
    """
    _refuse_flags(name, element, ("header", "footer", "file/pad", "file/fast_dump"))
    if read_text(element, "file/splitevery") not in ("", "0") or read_text(element, "endedLine"):
        raise UntranslatableError(f"{name}: it adds lines of its own; {_SQL}")
    fields = element.findall("fields/field")
    target = read_text(element, "ConcatFields/targetFieldName")
    if not fields or not target:
        raise UntranslatableError(f"{name}: it must name its fields and its target")
    separator, enclosure = (element.findtext(each) or "" for each in ("separator", "enclosure"))
    parts = []
    for field in fields:
        _refuse_format(name, field)
        parts.append(_enclose(_trimmed(field), separator, enclosure, element))
    joined = f" || {literal(separator)} || " if separator else " || "
    _, removed = list_computed("ConcatFields", element)
    kept = f"* EXCEPT ({', '.join(dict.fromkeys(map(quote, removed)))})" if removed else "*"
    return f"SELECT {kept}, nullif({joined.join(parts)}, '') AS {quote(target)} FROM {relation}"


def _refuse_format(name: str, field: "Element") -> None:
    settings = [read_text(field, each) for each in ("format", "nullif")]
    length, kind = read_text(field, "length"), read_text(field, "type")
    if any(settings) or length not in ("", "-1") or kind not in ("", "None", "String", "-"):
        raise UntranslatableError(
            f"{name}: {read_text(field, 'name')} has a format, a length or another type; {_SQL}"
        )


def _trimmed(field: "Element") -> str:
    value = as_text(quote(read_text(field, "name")))
    trim = _TRIMS.get(read_text(field, "trim_type").lower())
    return f"regexp_replace({value}, {literal(trim)}, '')" if trim else value


def _enclose(value: str, separator: str, enclosure: str, element: "Element") -> str:
    text = f"coalesce({value}, '')"
    if not enclosure:
        return text
    around = literal(enclosure)
    enclosed = f"{around} || replace({value}, {around}, {literal(enclosure * 2)}) || {around}"
    if read_text(element, "enclosure_forced").upper() == "Y":
        return f"IF({text} = '', '', {enclosed})"
    if read_text(element, "enclosure_fix_disabled").upper() == "Y":
        return text
    met = " OR ".join(
        f"contains({value}, {literal(each)})" for each in (separator, enclosure) if each
    )
    return f"IF({met}, {enclosed}, {text})"


def _operate(name: str, element: "Element", relation: str) -> str:
    """Return the query of String operations, each of which reads the fields of the input."""
    replaced: dict[str, str] = {}
    added: list[tuple[str, str]] = []
    for field in element.iterfind("fields/field"):
        for flag in ("padding_type", "init_cap", "mask_xml"):
            if read_text(field, flag).lower() not in ("", "none", "no"):
                raise UntranslatableError(f"{name}: {flag} has no exact counterpart; {_SQL}")
        value = as_text(quote(read_text(field, "in_stream_name")))
        if trim := _choose(name, field, "trim_type", _TRIMS):
            value = f"regexp_replace({value}, {literal(trim)}, '')"
        if case := _choose(name, field, "lower_upper", _CASES):
            value = f"{case}({value})"
        if digits := _choose(name, field, "digits", _DIGITS):
            value = f"regexp_replace({value}, {literal(digits)}, '')"
        for character in _choose(name, field, "remove_special_characters", _SPECIAL) or "":
            value = f"replace({value}, char({ord(character)}), '')"
        old, new = read_text(field, "in_stream_name"), read_text(field, "out_stream_name")
        if new:
            added.append((f"nullif({value}, '')", new))
        elif old in replaced:
            raise UntranslatableError(f"{name}: it changes {old} twice; {_SQL}")
        else:
            replaced[old] = f"nullif({value}, '')"
    return _select(replaced, added, relation)


def _choose(name: str, field: "Element", flag: str, known: Mapping[str, str]) -> str | None:
    given = read_text(field, flag).lower()
    if given in ("", "none", "no"):
        return None
    if given not in known:
        raise UntranslatableError(f"{name}: {flag} {given} has no exact counterpart; {_SQL}")
    return known[given]


def _select(replaced: Mapping[str, str], added: list[tuple[str, str]], relation: str) -> str:
    """Return a query of all fields, some with other values, and of new ones."""
    kept = f"* EXCEPT ({', '.join(map(quote, replaced))})" if replaced else "*"
    pairs = [(value, old) for old, value in replaced.items()] + added
    columns = "".join(f", {value} AS {quote(field)}" for value, field in pairs)
    return f"SELECT {kept}{columns} FROM {relation}"


def _calculate(name: str, element: "Element", relation: str) -> str:
    """Return the query of a Calculator, whose calculations may read the results of earlier ones."""
    query, removed = f"SELECT * FROM {relation}", []
    for each in element.iterfind("calculation"):
        field = read_text(each, "field_name")
        value = _calculation(name, each)
        query = f"SELECT *, {value} AS {quote(field)} FROM ({query})"
        removed += [field] if read_text(each, "remove").upper() == "Y" else []
    if not removed:
        return query
    return f"SELECT * EXCEPT ({', '.join(map(quote, removed))}) FROM ({query})"


def _calculation(name: str, element: "Element") -> str:
    kind, result = read_text(element, "calc_type"), read_text(element, "value_type")
    fields = [read_text(element, each) for each in ("field_a", "field_b")]
    a, b = (quote(each) for each in fields)
    if not read_text(element, "field_name") or not fields[0]:
        raise UntranslatableError(f"{name}: a calculation has no name or no field; {_SQL}")
    if kind in _PARTS and result in ("", "-", "None", "Integer"):
        problem = literal(f"{fields[0]} is not a date; take its part in SQL")
        part = f"CAST({_PARTS[kind]}(CAST({a} AS TIMESTAMP)) AS BIGINT)"
        return f"IF(typeof({a}) RLIKE '^(date|timestamp)', {part}, raise_error({problem}))"
    if kind == "NVL" and result == "String" and fields[1]:
        return f"coalesce({as_text(a)}, {as_text(b)})"
    if kind in ("UPPER_CASE", "LOWER_CASE") and result in ("", "-", "None", "String"):
        return f"{kind.removesuffix('_CASE').lower()}({as_text(a)})"
    raise UntranslatableError(
        f"{name}: {kind} of {fields[0]} depends on types that the file does not contain; {_SQL}"
    )


def _null_if(name: str, element: "Element", relation: str) -> str:
    """Return the query of Null if: a text with this value becomes NULL."""
    replaced = {}
    for field in element.iterfind("fields/field"):
        column, value = read_text(field, "name"), field.findtext("value") or ""
        if column in replaced or not value:
            raise UntranslatableError(f"{name}: {column} has no value, or occurs twice; {_SQL}")
        replaced[column] = f"nullif({as_text(quote(column))}, {literal(value)})"
    return _select(replaced, [], relation)


def _if_null(name: str, element: "Element", relation: str) -> str:
    """Return the query of If field value is null, for single fields that are texts."""
    if read_text(element, "selectFields").upper() != "Y":
        raise UntranslatableError(f"{name}: it replaces all fields or those of a type; {_SQL}")
    replaced = {}
    for field in element.iterfind("fields/field"):
        column, value = read_text(field, "name"), field.findtext("value") or ""
        if column in replaced or read_text(field, "mask"):
            raise UntranslatableError(f"{name}: {column} has a mask, or occurs twice; {_SQL}")
        if value and read_text(field, "set_empty_string").upper() != "Y":
            replaced[column] = f"coalesce({as_text(quote(column))}, {literal(value)})"
    return _select(replaced, [], relation)


def _refuse_flags(name: str, element: "Element", flags: tuple[str, ...]) -> None:
    for flag in flags:
        if read_text(element, flag).upper() == "Y":
            raise UntranslatableError(f"{name}: {flag.rpartition('/')[2]} is set; {_SQL}")


_QUERIES: Mapping[str, Callable[[str, "Element", str], str]] = {
    "ConcatFields": _concat,
    "StringOperations": _operate,
    "Calculator": _calculate,
    "NullIf": _null_if,
    "IfNull": _if_null,
}
"""Query of each type of step that computes fields."""

COMPUTING = frozenset(_QUERIES)
