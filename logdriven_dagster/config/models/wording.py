"""Conversion of pydantic's errors into messages for authors of YAML.

An error becomes `must be …, not …` with a fix. Pydantic reports each member of a union separately;
here they are one error: `must be text, a number, or true or false, not [1]`.
"""

import difflib
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from logdriven_dagster.config.models.fields import IDENTIFIER
from logdriven_dagster.config.models.types.registered import explain_unregistered
from logdriven_dagster.config.secrets import show_value
from logdriven_dagster.config.yaml.documents import Document, Location
from logdriven_dagster.config.yaml.field_locations import get_value, list_types, place_of
from logdriven_dagster.config.yaml.field_names import get_alias
from logdriven_dagster.config.yaml.loader import find_ambiguous
from logdriven_dagster.errors import ConfigError

_LENGTH_OF_TIME = "a length of time, such as 1 day or 15 min"
_EXAMPLES: Mapping[str, str] = {
    "check": "positive",
    "checks": "[{check: positive, sql: SELECT …}]",
    "columns": "[id]",
    "commit_before_read": "[{connection: crm, sql: TRUNCATE TABLE …}]",
    "connection": "crm",
    "default_start": "2022-01-01",
    "depends_on": "[ods.orders]",
    "exec_order": "10",
    "job": "nightly",
    "key": "[id]",
    "name": "crm.orders",
    "notify": "[{to: operators}]",
    "owners": "[team@example.com]",
    "path": "data/orders.csv",
    "period": "1 day",
    "project": "shop",
    "relations": "[{from: ods.orders, to: dws.sales}]",
    "rule": "not_null",
    "sql": "SELECT …",
    "step": "load",
    "steps": "[{step: load, …}]",
    "table": "ods.orders",
    "tables": "[ods.orders]",
    "target": "{type: iceberg}",
    "topic": "orders",
    "url": "postgresql://user:${env:PASSWORD}@host/database",
}
"""Example values of fields."""

_TABLE = rf"^{IDENTIFIER}(\.{IDENTIFIER})*$"
_PATTERNS: Mapping[str, str] = {
    rf"^{IDENTIFIER}$": "a name of letters, digits and underscores that begins with a letter",
    r"^[\w.-]+$": "a name of letters, digits, dots and dashes",
}
"""Descriptions of the texts that match a pattern."""

_Expected: TypeAlias = "str | Callable[[ErrorDetails, str], str]"


def _get_context(details: ErrorDetails, name: str) -> Any:
    return details.get("ctx", {}).get(name)


def _describe_pattern(details: ErrorDetails, field: str) -> str:
    pattern = str(_get_context(details, "pattern"))
    if pattern in _PATTERNS:
        return _PATTERNS[pattern]
    match field:
        case "asset":
            return "the parts of a key with slashes between them, such as raw/events"
        case "python":
            return "file.py:function or package.module:function"
        case "ui_url":
            return "an address without a password, such as https://dagster.example.com"
        case "remote":
            return "classic, auto or an address such as sc://host:15002"
        case _:
            return f"text that matches {pattern}"


def _describe_list(details: ErrorDetails, field: str) -> str:
    given, example = details.get("input"), _EXAMPLES.get(field, "[a, b]")
    if isinstance(given, str) and given and not example.startswith("[{"):
        example = f"[{given}]"
    return f"a list, such as {example}"


def _describe_choice(details: ErrorDetails, _: str) -> str:
    return _join_alternatives(_list_choices(details))


def _list_choices(details: ErrorDetails) -> list[str]:
    return re.findall(r"'([^']*)'", str(_get_context(details, "expected")))


_EXPECTED: Mapping[str, _Expected] = {
    "bool_parsing": "true or false",
    "bool_type": "true or false",
    "dict_type": "names and values, such as {name: value}",
    "enum": _describe_choice,
    "finite_number": "a number that is not infinite",
    "float_parsing": "a number",
    "float_type": "a number",
    "greater_than": lambda details, _: f"more than {_get_context(details, 'gt'):g}",
    "greater_than_equal": lambda details, _: f"at least {_get_context(details, 'ge'):g}",
    "int_from_float": "a whole number",
    "int_parsing": "a whole number",
    "int_parsing_size": "a smaller number",
    "int_type": "a whole number",
    "less_than": lambda details, _: f"less than {_get_context(details, 'lt'):g}",
    "less_than_equal": lambda details, _: f"at most {_get_context(details, 'le'):g}",
    "list_type": _describe_list,
    "literal_error": _describe_choice,
    "string_pattern_mismatch": _describe_pattern,
    "string_too_long": lambda details, _: (
        f"at most {_get_context(details, 'max_length')} characters"
    ),
    "string_too_short": "text that is not empty",
    "string_type": "text",
    "string_unicode": "text",
    "time_delta_parsing": _LENGTH_OF_TIME,
    "time_delta_type": _LENGTH_OF_TIME,
    "tuple_type": _describe_list,
}
"""Expected value of a field, by type of pydantic's error."""

_OF_FIELDS = frozenset({"model_type", "model_attributes_type"})


def convert_validation_errors(
    document: Document, model: type[BaseModel], error: ValidationError
) -> Iterator[ConfigError]:
    """Convert pydantic's errors into ConfigErrors with location, plain words and a fix.

    `model` is the model against which `document` was validated.
    """
    groups: dict[Location, list[tuple[ErrorDetails, list[type[BaseModel]]]]] = {}
    for details in error.errors(include_url=False):
        if details["type"] == "too_short" and details["input"]:
            continue  # the list has items, each with an error of its own
        location, models = place_of(model, document.values, details)
        groups.setdefault(location, []).append((details, models))
    for location, group in groups.items():
        yield document.error(*_describe_error(location, group))


def describe_problem(error: ValidationError) -> str:
    """Return the first error about a single value, without its location."""
    details = error.errors(include_url=False)[0]
    name = str(details["loc"][-1]) if details["loc"] else ""
    _, problem, hint = _describe_error((name,), [(details, [])])
    return f"{problem}; {hint}" if hint else problem


def _describe_error(
    location: Location, group: Sequence[tuple[ErrorDetails, list[type[BaseModel]]]]
) -> tuple[Location, str, str | None]:
    (details, models), field = group[0], _get_field(location)
    given = details.get("input")
    match details["type"]:
        case "extra_forbidden":
            allowed = sorted({get_alias(m, name) for m in models for name in m.model_fields})
            near = difflib.get_close_matches(str(location[-1]), allowed, n=1)
            return (
                location,
                "unknown field",
                _suggest_near(near) or f"allowed: {', '.join(allowed)}",
            )
        case "missing":
            return location, "missing", f"add `{_format_field(field, location)}`"
        case "too_short":
            return location, "must not be empty", f"write {_describe_list(details, field)}"
        case "union_tag_not_found":
            types = ", ".join(_list_tags(models))
            return location, "no type given", f"add `type: …`, which is one of {types}"
        case "union_tag_invalid":
            tag = given.get("type") if isinstance(given, dict) else given
            return location, f"unknown type {tag!r}", _describe_types(str(tag), models)
        case "value_error" | "assertion_error":
            return _describe_own_error(location, details, models)
        case "string_pattern_mismatch" if _get_context(details, "pattern") == _TABLE:
            hint = "use letters, digits and underscores between dots, such as ods.orders"
            return location, f"{show_value(given)} is not a table name", hint
        case "invalid_key":
            name = show_value(given)
            return location, f"the name {name} must be text", f'write "{name}" in quotes'
        case _:
            pass
    expected = list(dict.fromkeys(_describe_expected(each, of, field) for each, of in group))
    if "a number" in expected and "a whole number" in expected:
        expected.remove("a whole number")
    found = "but it is empty" if given is None else f"not {show_value(given)}"
    return location, f"must be {_join_alternatives(expected)}, {found}", _suggest_fix(group, given)


def _describe_expected(details: ErrorDetails, models: list[type[BaseModel]], field: str) -> str:
    if details["type"] in _OF_FIELDS:
        return f"fields, such as {{{_find_first_field(models)}}}"
    expected = _EXPECTED.get(details["type"], "another value")
    return expected if isinstance(expected, str) else expected(details, field)


def _find_first_field(models: list[type[BaseModel]]) -> str:
    """Return the most informative field: the type, a required field, or the first one."""
    if types := _list_tags([each for each in models if "type" in _list_required([each])]):
        return f"type: {types[0]}"
    names = [
        *_list_required(models),
        *(get_alias(m, name) for m in models for name in m.model_fields),
    ]
    return f"{names[0]}: {_EXAMPLES.get(names[0], '…')}" if names else "name: value"


def _join_alternatives(names: list[str]) -> str:
    """Join alternatives for a message: `a`, `a or b`, `a, b or c`."""
    *others, last = names
    if not others:
        return last
    between = ", or " if any(" or " in name for name in names) else " or "
    return f"{', '.join(others)}{between}{last}"


def _suggest_fix(
    group: Sequence[tuple[ErrorDetails, list[type[BaseModel]]]], given: object
) -> str | None:
    kinds = {details["type"] for details, _ in group}
    if kinds == {"string_type"} and isinstance(given, (bool, int, float)):
        return f'write "{show_value(given)}" in quotes if it is text'
    if kinds <= {"literal_error", "enum"} and isinstance(given, str):
        choices = [choice for details, _ in group for choice in _list_choices(details)]
        near = difflib.get_close_matches(given, choices, n=1)
        return _suggest_near(near)
    return None


def _describe_types(tag: str, models: list[type[BaseModel]]) -> str:
    """Describe valid types: the known ones, the closest match, or why a type is unusable."""
    problem, others = explain_unregistered(tag, models) or ("", "")
    near = difflib.get_close_matches(tag, _list_tags(models), n=1)
    known = ", ".join([*_list_tags(models), *filter(None, [others])])
    return problem or _suggest_near(near) or f"one of {known}"


def _suggest_near(names: list[str]) -> str | None:
    return f"did you mean {names[0]!r}?" if names else None


def _describe_own_error(
    location: Location, details: ErrorDetails, models: list[type[BaseModel]]
) -> tuple[Location, str, str | None]:
    """Return location, message and fix of an error raised by a validator of this project.

    The message of a model validator may begin with the name of the field.
    """
    text = details["msg"].removeprefix("Value error, ")
    name, colon, rest = text.partition(": ")
    if colon and any(name in m.model_fields for m in models):
        return (*location, name), rest, None
    return location, text, None


def _format_field(field: str, location: Location) -> str:
    """Return a field with an example value.

    A `table` below `steps` is a database table, so it gets an example without a layer. The `name`
    of a `window_column` is a column.
    """
    if field == "table" and "steps" in location:
        return "table: orders"
    if field == "name" and "window_column" in location:
        return "name: ordered_at"
    return f"{field}: {_EXAMPLES.get(field, '…')}"


def _get_field(location: Location) -> str:
    names = [part for part in location if isinstance(part, str)]
    return names[-1] if names else ""


def _list_required(models: list[type[BaseModel]]) -> list[str]:
    return [
        get_alias(model, name)
        for model in models
        for name, field in model.model_fields.items()
        if field.is_required()
    ]


def _list_tags(models: list[type[BaseModel]]) -> list[str]:
    return [str(tag) for model in models for tag in list_types(model)]


def find_ambiguities(document: Document, config: BaseModel) -> Iterator[ConfigError]:
    """Yield an error for each unquoted text that YAML reads as a boolean in another field."""
    for location, text in find_ambiguous(document.values):
        if not isinstance(get_value(config, location), bool):
            hint = f'write "{text}" in quotes'
            if isinstance(get_value(config, location[:-1]), dict):  # variables, options
                hint += f", or {text.meaning} if you mean that"
            yield document.error(location, f"YAML reads {text} as {text.meaning}", hint)
