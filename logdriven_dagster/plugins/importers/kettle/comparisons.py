"""Comparisons of Kettle as expressions of Spark, with Kettle's rules for NULL and empty texts.

Kettle counts an empty text as NULL, and NULL as equal to NULL and less than any value. A comparison
depends on the types of fields, which a file does not contain: each expression checks them and fails
otherwise. Spark evaluates these checks when it plans a query. Source: Kettle, Condition.evaluate,
ValueMetaBase.compare.
"""

import re
from typing import TYPE_CHECKING

from logdriven_dagster.plugins.importers.drafts import UntranslatableError
from logdriven_dagster.plugins.importers.kettle.hops import read_text

if TYPE_CHECKING:
    from xml.etree.ElementTree import Element

_NUMBERS = "^(tinyint|smallint|int|bigint|float|double|decimal)"
_FRACTIONS = r"^(float|double|decimal\\([0-9]+,[1-9])"
_NUMBER_TYPES = ("Integer", "Number", "BigNumber")
_OF_SEVERAL_CASES = (
    r"[\x{DF}\x{130}\x{149}\x{1F0}\x{390}-\x{3C3}\x{587}\x{1E96}-\x{1E9E}"
    r"\x{1F50}-\x{1FFC}\x{FB00}-\x{FB17}]"
)
_OPERATORS = {"OR": "OR", "AND": "AND", "OR NOT": "OR NOT", "AND NOT": "AND NOT", "XOR": "<>"}
_TEXT_FUNCTIONS = {"CONTAINS": "contains", "STARTS WITH": "startswith", "ENDS WITH": "endswith"}


def quote(name: str) -> str:
    """Return a field's name in backticks."""
    return "`" + name.replace("`", "``") + "`"


def literal(text: str) -> str:
    """Return a text as a literal of Spark.

    Raises UntranslatableError for a variable, and for characters that Spark or the project's
    variables would replace.
    """
    if "${" in text or "%%" in text or (":" in text and re.search(r"(?<!:):[A-Za-z_]", text)):
        raise UntranslatableError(f"the value {text!r} contains a variable; write the value")
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"


def as_text(column: str) -> str:
    """Return a text column, and NULL for empty texts; other types fail."""
    problem = f"{_plain(column)} is not a text; compare it in SQL"
    checked = f"IF(typeof({column}) = 'string', {column}, raise_error({literal(problem)}))"
    return f"nullif(CAST({checked} AS STRING), '')"


def as_number(column: str, *, with_fractions: bool = False) -> str:
    """Return a numeric column; other types fail, also whole numbers if `with_fractions`."""
    types = _FRACTIONS if with_fractions else _NUMBERS
    problem = f"{_plain(column)} has another type than the number; compare it in SQL"
    return f"IF(typeof({column}) RLIKE '{types}', {column}, raise_error({literal(problem)}))"


def empty_as_null(column: str) -> str:
    """Return a column of any type, and NULL for an empty text."""
    return f"CASE WHEN CAST({column} AS STRING) = '' THEN NULL ELSE {column} END"


def without_case(column: str) -> str:
    """Return a column of any type as a text by which Kettle compares it without case.

    Kettle compares single characters. Letters whose case has another length, or depends on their
    neighbours, fail. Source: java.lang.String.compareToIgnoreCase.
    """
    text = f"CAST({column} AS STRING)"
    problem = f"{_plain(column)} has letters that have no single other case; join them in SQL"
    folded = (
        f"IF({text} RLIKE {literal(_OF_SEVERAL_CASES)}, raise_error({literal(problem)}), "
        f"lower(upper({text})))"
    )
    return f"IF(typeof({column}) = 'string', {folded}, {text})"


def are_equal(left: str, right: str, *, empty_is_null: bool = True) -> str:
    """Return True where two columns are equal or both NULL.

    A text and another type fail, and so do a whole number and a fraction, which Kettle converts.
    """
    a, b = (empty_as_null(left), empty_as_null(right)) if empty_is_null else (left, right)
    return are_of_one_type(left, right, f"{a} <=> {b}")


def are_of_one_type(left: str, right: str, expression: str) -> str:
    """Return an expression that fails for two columns that Kettle would convert before it."""
    problem = f"{_plain(left)} and {_plain(right)} have different types; convert one in SQL"
    same = " AND ".join(
        f"(typeof({left}) RLIKE '{types}') = (typeof({right}) RLIKE '{types}')"
        for types in ("^string", _FRACTIONS)
    )
    return f"IF({same}, {expression}, raise_error({literal(problem)}))"


def _plain(column: str) -> str:
    return column.replace("`", "")


def condition_of(element: "Element", step: str) -> str:
    """Return a condition of Filter rows as an expression that is never NULL.

    Raises UntranslatableError for functions and types without a counterpart.
    """
    parts = element.findall("conditions/condition")
    found = _atom(element, step) if not parts else condition_of(parts[0], step)
    # Kettle has no precedence: it evaluates from left to right.
    for part in parts[1:]:
        operator = _OPERATORS.get(read_text(part, "operator").upper())
        if operator is None:
            raise UntranslatableError(f"{step}: unknown operator {read_text(part, 'operator')}")
        found = f"({found} {operator} {condition_of(part, step)})"
    return f"(NOT {found})" if read_text(element, "negated").upper() == "Y" else found


def _atom(element: "Element", step: str) -> str:
    function = read_text(element, "function").upper()
    if function == "TRUE":
        return "true"
    left, right = read_text(element, "leftvalue"), read_text(element, "rightvalue")
    if not left:
        raise UntranslatableError(f"{step}: a condition has no field")
    column = quote(left)
    if function in ("IS NULL", "IS NOT NULL"):
        negated = "NOT " if function == "IS NOT NULL" else ""
        return f"({negated}coalesce(CAST({column} AS STRING), '') = '')"
    if right:
        if function not in _ORDERS:
            raise UntranslatableError(f"{step}: {function} of two fields; write it in SQL")
        return _compare_fields(column, function, quote(right))
    return _compare_value(column, function, element, step)


def _compare_fields(left: str, function: str, right: str) -> str:
    if function in ("=", "<>"):
        equal = are_equal(left, right)
        return f"({equal})" if function == "=" else f"(NOT {equal})"
    a, b = empty_as_null(left), empty_as_null(right)
    nulls = {
        "<": f"({a} IS NULL AND {b} IS NOT NULL)",
        "<=": f"{a} IS NULL",
        ">": f"({b} IS NULL AND {a} IS NOT NULL)",
        ">=": f"{b} IS NULL",
    }
    return are_of_one_type(left, right, f"{nulls[function]} OR coalesce({a} {function} {b}, false)")


def _compare_value(column: str, function: str, element: "Element", step: str) -> str:
    kind, text = read_text(element, "value/type"), element.findtext("value/text") or ""
    if element.find("value") is None or read_text(element, "value/isnull").upper() == "Y":
        raise UntranslatableError(f"{step}: {function} with NULL; use IS NULL")
    if kind == "String":
        return _compare_text(column, function, text, step)
    if kind in _NUMBER_TYPES and function in _ORDERS:
        number = text.strip()
        if not re.fullmatch(r"-?[0-9]+(\.[0-9]+)?", number):
            raise UntranslatableError(f"{step}: {text!r} is not a number")
        whole = re.sub(r"\.0+$", "", number)
        return _order(as_number(column, with_fractions="." in whole), function, whole)
    if kind == "Boolean" and function in ("=", "<>"):
        value = "true" if text.strip().upper() in ("Y", "TRUE") else "false"
        problem = f"{_plain(column)} is not a boolean; compare it in SQL"
        checked = f"IF(typeof({column}) = 'boolean', {column}, raise_error({literal(problem)}))"
        return _order(checked, function, value)
    raise UntranslatableError(f"{step}: {function} with a value of type {kind}; write it in SQL")


def _compare_text(column: str, function: str, text: str, step: str) -> str:
    value = as_text(column)
    if function in _TEXT_FUNCTIONS and text:
        return f"coalesce({_TEXT_FUNCTIONS[function]}({value}, {literal(text)}), false)"
    if function == "IN LIST" and "\\" not in text and '"' not in text:
        texts = [each for each in text.split(";") if each]
        if texts:
            return f"coalesce({value} IN ({', '.join(map(literal, texts))}), false)"
    if function in _ORDERS and text:
        return _order(value, function, literal(text))
    raise UntranslatableError(f"{step}: {function} {text!r} has no counterpart; write it in SQL")


_ORDERS = {"=": "false", "<>": "true", "<": "true", "<=": "true", ">": "false", ">=": "false"}
"""Result of each function for NULL and a value."""


def _order(left: str, function: str, right: str) -> str:
    return f"coalesce({left} {function} {right}, {_ORDERS[function]})"
