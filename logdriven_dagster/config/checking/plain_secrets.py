"""Secrets that stand in a project's files, where everybody who reads these can see them."""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from sqlalchemy.engine import make_url
from sqlalchemy.exc import ArgumentError

from logdriven_dagster.config.models.fields import Option
from logdriven_dagster.config.models.project import ProjectConfig
from logdriven_dagster.config.secrets import has_reference, names_secret, plain_password, remember
from logdriven_dagster.config.yaml.documents import Document, Location
from logdriven_dagster.errors import ConfigError

_OPTIONS: tuple[tuple[str, ...], ...] = (("options",), ("source", "options"), ("target", "options"))
"""Where a step has options."""


def plain_secrets(document: Document, config: ProjectConfig) -> Iterator[ConfigError]:
    """Secrets written into `logdriven.yaml` instead of taken from the environment."""
    urls: list[tuple[Location, str]] = [(("run_log",), config.run_log)]
    groups: list[tuple[Location, Mapping[str, Option]]] = [
        (("storage",), config.storage),
        (("variables",), config.variables),
        (("spark", "config"), config.spark.config),
        *((("properties", group), given) for group, given in config.properties.items()),
    ]
    if isinstance(config.catalog, str):
        urls.append((("catalog",), config.catalog))
    elif config.catalog:
        groups.append((("catalog",), config.catalog))
    for name, connection in config.connections.items():
        place: Location = ("connections", name)
        urls += [((*place, "url"), connection.url)] if connection.url else []
        urls += [((*place, "jdbc", "url"), connection.jdbc.url)] if connection.jdbc.url else []
        groups.append(((*place, "kafka"), connection.kafka or {}))
        groups.append(((*place, "jdbc", "options"), connection.jdbc.options))
    for location, url in urls:
        if plain_password(url):
            remember_plain(url)
            yield document.error(location, "a password in plain text", _fix("PASSWORD"))
    for location, options in groups:
        yield from _plain_options(document, location, options)


def definition_secrets(document: Document) -> Iterator[ConfigError]:
    """Secrets written into the file of a table or job."""
    values = document.values
    for field in ("variables", "parameters"):
        yield from _plain_options(document, (field,), _mapping(values, field))
    steps = values.get("steps")
    for n, step in enumerate(steps if isinstance(steps, list) else ()):
        for inner in _OPTIONS:
            yield from _plain_options(document, ("steps", n, *inner), _mapping(step, *inner))
    for group in _mapping(values, "properties"):
        keys, place = _mapping(values, "properties", group), ("properties", group)
        # The others are the project's, where they are reported.
        own = {k: v for k, v in keys.items() if not document.lines or (*place, k) in document.lines}
        yield from _plain_options(document, place, own)


def _mapping(values: Any, *place: str) -> Mapping[str, Any]:
    for name in place:
        values = values.get(name) if isinstance(values, dict) else None
    return values if isinstance(values, dict) else {}


def _plain_options(
    document: Document, location: Location, options: Mapping[str, Any]
) -> Iterator[ConfigError]:
    """The mistakes of options that hold secrets which are written out, by their names or texts."""
    for key, value in options.items():
        text, place = str(value), (*location, key)
        if key.endswith("JavaOptions"):
            yield from _java_secret(document, place, text)
        elif not has_reference(text) and not isinstance(value, bool):
            if names_secret(key):
                remember(text)
                name = re.sub(r"\W+", "_", key).upper()
                yield document.error(place, "a secret in plain text", _fix(name))
            elif plain_password(text):
                remember_plain(text)
                yield document.error(place, "a password in plain text", _fix("PASSWORD"))


def _java_secret(document: Document, place: Location, text: str) -> Iterator[ConfigError]:
    """The mistake of an option of Java that holds a secret, whether written out or not."""
    given = [option.partition("=")[::2] for option in text.split() if "=" in option]
    secrets = [value for name, value in given if names_secret(name)]
    if secrets or has_reference(text):
        for secret in secrets:
            remember(None if has_reference(secret) else secret)
        problem = "every user of the machine can read Java's command line"
        fix = "write the option into a file that only you can read, and here @/path/of/the/file"
        yield document.error(place, problem, fix)


def remember_plain(text: str) -> None:
    """Hide the password of a text that must not have held one."""
    try:
        remember(make_url(text).password)
    except (ArgumentError, ValueError):
        remember(text)


def _fix(name: str) -> str:
    return f"write ${{env:{name}}} and set {name} in the environment"
