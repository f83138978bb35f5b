"""Detection of secrets in plain text in a project's files."""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from sqlalchemy.engine import make_url
from sqlalchemy.exc import ArgumentError

from logdriven_dagster.config.checking.secret_texts import find_marked_secrets, find_secrets
from logdriven_dagster.config.models.fields import Option
from logdriven_dagster.config.models.notifications import list_recipient_secrets
from logdriven_dagster.config.models.project import ProjectConfig
from logdriven_dagster.config.secrets import find_passwords, has_reference, names_secret, remember
from logdriven_dagster.config.yaml.documents import Document, Location
from logdriven_dagster.errors import ConfigError

_OPTIONS: tuple[tuple[str, ...], ...] = (("options",), ("source", "options"), ("target", "options"))
"""Locations of a step's options."""

_TEXTS = ("sql", "query", "pre_sql", "condition", "description")
"""Fields whose texts are SQL or prose, in which `password = 'x'` is a comparison."""


def find_plain_secrets(document: Document, config: ProjectConfig) -> Iterator[ConfigError]:
    """Yield an error for each secret in plain text in `logdriven.yaml`."""
    groups: list[tuple[Location, Mapping[str, Option]]] = [
        (("storage",), config.storage),
        (("variables",), config.variables),
        (("spark", "config"), config.spark.config),
        *((("properties", group), given) for group, given in config.properties.items()),
    ]
    if config.catalog and not isinstance(config.catalog, str):
        groups.append((("catalog",), config.catalog))
    for name, connection in config.connections.items():
        place: Location = ("connections", name)
        groups += (((*place, *inner), given) for inner, given in connection.option_groups())
    named = dict(list_recipient_secrets(config.recipients))
    for location, options in groups:
        named |= _find_named(location, options)
    yield from _report_secrets(document, named)


def find_definition_secrets(document: Document) -> Iterator[ConfigError]:
    """Yield an error for each secret in plain text in the file of a table or job."""
    values, named = document.values, dict[Location, str]()
    for field in ("variables", "parameters"):
        named |= _find_named((field,), _get_mapping(values, field))
    steps = values.get("steps")
    for n, step in enumerate(steps if isinstance(steps, list) else ()):
        for inner in _OPTIONS:
            named |= _find_named(("steps", n, *inner), _get_mapping(step, *inner))
    for group in _get_mapping(values, "properties"):
        named |= _find_named(("properties", group), _get_mapping(values, "properties", group))
    yield from _report_secrets(document, named)


def _get_mapping(values: Any, *place: str) -> Mapping[str, Any]:
    for name in place:
        values = values.get(name) if isinstance(values, dict) else None
    return values if isinstance(values, dict) else {}


def _find_named(location: Location, options: Mapping[str, Any]) -> dict[Location, str]:
    """Return options in plain text whose names mark them as secrets, by location."""
    return {
        (*location, key): str(value)
        for key, value in options.items()
        if names_secret(key) and not has_reference(str(value)) and not isinstance(value, bool)
    }


def _report_secrets(document: Document, named: Mapping[Location, str]) -> Iterator[ConfigError]:
    """Yield the errors of a document: for secrets by their names (`named`) or by their texts.

    Values inherited from the project file are reported there.
    """
    given: dict[Location, Any] = dict(_list_leaves(document.values, ()))
    for place, value in {**given, **named}.items():
        if document.lines and place not in document.lines:
            continue
        key = str(place[-1])
        if isinstance(value, str) and key.endswith("JavaOptions"):
            yield from _report_java_secrets(document, place, value)
        elif place in named:
            remember(named[place])
            name = re.sub(r"\W+", "_", key).upper()
            yield document.error(place, "a secret in plain text", _suggest_fix(name))
        elif isinstance(value, str) and (secrets := _list_plain_secrets(place, value)):
            for secret in secrets:
                remember(secret)
            remember_plain(value)
            kind = "password" if find_passwords(value) else "secret"
            yield document.error(place, f"a {kind} in plain text", _suggest_fix(kind.upper()))


def _list_plain_secrets(place: Location, text: str) -> list[str]:
    if any(part in _TEXTS for part in place):
        return [secret for secret in find_marked_secrets(text) if not has_reference(secret)]
    return find_secrets(text)


def _list_leaves(value: Any, place: Location) -> Iterator[tuple[Location, Any]]:
    if isinstance(value, dict):
        for key, part in value.items():
            yield from _list_leaves(part, (*place, key))
    elif isinstance(value, list):
        for n, part in enumerate(value):
            yield from _list_leaves(part, (*place, n))
    else:
        yield place, value


def _report_java_secrets(document: Document, place: Location, text: str) -> Iterator[ConfigError]:
    """Yield an error for a Java option that contains a secret, in plain text or by reference."""
    given = [option.partition("=")[::2] for option in text.split() if "=" in option]
    secrets = [value for name, value in given if names_secret(name)]
    if secrets or has_reference(text):
        for secret in secrets:
            remember(None if has_reference(secret) else secret)
        problem = "every user of the host can read Java's command line"
        fix = "write the option into a file that only you can read, and set @/path/of/the/file here"
        yield document.error(place, problem, fix)


def remember_plain(text: str) -> None:
    """Register the password of a text for redaction, although it should not contain one."""
    try:
        remember(make_url(text).password)
    except (ArgumentError, ValueError):
        remember(text)


def _suggest_fix(name: str) -> str:
    return f"write ${{env:{name}}} and set {name} in the environment"
