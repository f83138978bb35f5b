"""Properties: parameters of a table by group and key. Source: BDRE, PROPERTIES.

Properties in `logdriven.yaml` are defaults for all tables; a table overrides them key by key.
`${group.key}` in any text of a table's file, and in its SQL files, is replaced when the project is
loaded. A text that consists of a single reference becomes the value with its type. Names without a
dot are variables, which are replaced when a window runs. `${env:NAME}` in a property is resolved
only when the secret is needed.
"""

import difflib
import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from logdriven_dagster.config.models.fields import Option
from logdriven_dagster.config.models.properties import PROPERTY_REFERENCE
from logdriven_dagster.config.models.steps import StepConfig
from logdriven_dagster.config.yaml.documents import Document, Location, read_text
from logdriven_dagster.errors import ConfigError

if TYPE_CHECKING:
    from logdriven_dagster.config.models.tables import TableConfig


Values: TypeAlias = Mapping[str, Mapping[str, Option]]


class UnknownPropertyError(ValueError):
    """A text refers to a property that the table does not have."""

    def __init__(self, reference: str, hint: str) -> None:
        self.hint = hint
        super().__init__(f"unknown property {reference}")


def merge_properties(
    document: Document,
    defaults: Values,
    variables: Collection[str],
    errors: list[ConfigError],
) -> Document:
    """Merge the project's properties into a table's document and replace all references to them.

    `variables` are the project's, whose names may also contain dots; references to them stay.
    Mistakes are appended to `errors`.
    """
    own = document.values.get("properties")
    if own is not None and not _are_properties(own):
        return document  # validation reports it
    merged = {
        group: {**defaults.get(group, {}), **(own or {}).get(group, {})}
        for group in [*defaults, *(group for group in own or {} if group not in defaults)]
    }
    known = {*variables, *(document.values.get("variables") or ())}

    def fill(text: str, place: Location) -> Any:
        try:
            return _fill_text(text, merged, known)
        except UnknownPropertyError as error:
            errors.append(document.error(place, str(error), error.hint))
            return text

    values = {
        name: value if name == "properties" else _walk(value, (name,), fill)
        for name, value in document.values.items()
    }
    return replace(document, values=values | ({"properties": merged} if merged else {}))


def query_of(
    table: "TableConfig", step: StepConfig, folder: Path, variables: Collection[str]
) -> str | None:
    """Return the query of a step, inline or from its file in `folder`, or None if it has none.

    `variables` are the names of the project's variables; references to them are kept. Raises
    UnknownPropertyError if the file names a property that the table does not have, and ConfigError
    if it is not UTF-8.
    """
    if step.sql_file is None:
        return step.sql
    text = read_text(folder / step.sql_file)
    return str(_fill_text(text, table.properties, {*variables, *table.variables}))


def _fill_text(text: str, properties: Values, variables: Collection[str]) -> Any:
    if "${" not in text:
        return text
    if (whole := PROPERTY_REFERENCE.fullmatch(text)) and f"{whole[1]}.{whole[2]}" not in variables:
        return _get_value(whole, properties)

    def part(match: re.Match[str]) -> str:
        if f"{match[1]}.{match[2]}" in variables:
            return match[0]
        return format_option(_get_value(match, properties))

    return PROPERTY_REFERENCE.sub(part, text)


def _get_value(reference: re.Match[str], properties: Values) -> Option:
    group, key = reference[1], reference[2]
    if key in properties.get(group, {}):
        return properties[group][key]
    if group == "each":
        hint = "only allowed in a file with for_each; an SQL file can use properties and variables"
    elif group in properties:
        hint = _suggest_name(key, properties[group], f"group {group} has")
    else:
        hint = _suggest_name(group, properties, "the groups are")
    raise UnknownPropertyError(reference[0], hint)


def _suggest_name(name: str, names: Collection[str], otherwise: str) -> str:
    if near := difflib.get_close_matches(name, names, n=1):
        return f"did you mean {near[0]!r}?"
    return f"{otherwise} {', '.join(names)}" if names else "the table has no properties"


def _walk(value: Any, place: Location, fill: Callable[[str, Location], Any]) -> Any:
    """Return the value with each text in it replaced by `fill`."""
    if isinstance(value, str):
        return fill(value, place)
    if isinstance(value, dict):
        return {key: _walk(part, (*place, key), fill) for key, part in value.items()}
    if isinstance(value, list):
        return [_walk(part, (*place, n), fill) for n, part in enumerate(value)]
    return value


def _are_properties(value: Any) -> bool:
    return isinstance(value, dict) and all(isinstance(group, dict) for group in value.values())


def format_option(value: Option) -> str:
    """Return the text of a property, as inserted into a query."""
    return str(value).lower() if isinstance(value, bool) else str(value)
