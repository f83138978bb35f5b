"""Secrets: they come from the environment, and never leave again in any text."""

import os
import re
from collections.abc import Mapping
from typing import TypeAlias
from urllib.parse import quote, quote_plus

Plain: TypeAlias = str | int | float | bool

SECRET_NAME = re.compile(
    r"pass(word|wd)?|pwd|secret|token|credential|(api|access|account|private).?key", re.IGNORECASE
)
"""Names of options that hold secrets."""

_REFERENCE = re.compile(r"\$\{env:([A-Za-z_][A-Za-z0-9_]*)\}")
_URL_PASSWORD = re.compile(r"(?P<head>\w://[^\s/:@]*:)(?P<secret>[^\s@]+)(?=@)")
_ASSIGNED = re.compile(
    r"(?P<head>\b(?:password|passwd|pwd)\s*=\s*)(?P<secret>[^\s;&,'\")]+)", re.IGNORECASE
)
_SHORTEST = 3
"""Hiding every occurrence of one or two letters would hide the text, not the secret."""

_known: set[str] = set()


def resolve_environment(text: str) -> str:
    """The text with each `${env:NAME}` replaced; KeyError(NAME) if it is not set."""
    return _REFERENCE.sub(lambda match: os.environ[match[1]], text)


def resolve_secret(text: str) -> str:
    """Like `resolve_environment`; the values are hidden by `redact` from now on."""
    for name in environment_names(text):
        remember(os.environ[name])
    return resolve_environment(text)


def environment_names(text: str) -> list[str]:
    """The variables that the text takes from the environment."""
    return _REFERENCE.findall(text)


def plain_url_password(url: str) -> bool:
    """Whether a URL holds a password that does not come from the environment."""
    matches = [match["secret"] for match in _URL_PASSWORD.finditer(url)]
    matches += [match["secret"] for match in _ASSIGNED.finditer(url)]
    return any(not _REFERENCE.fullmatch(secret) for secret in matches)


def remember(secret: str | None) -> None:
    """Hide this value in every later text, also in its URL-quoted and escaped forms."""
    if secret and len(secret) >= _SHORTEST:
        escaped = repr(secret)[1:-1]
        _known.update({secret, quote(secret, safe=""), quote_plus(secret), escaped})


def told(values: Mapping[str, Plain]) -> dict[str, Plain]:
    """Named values as a log may hold them: `${env:NAME}` stays a name, other secrets are hidden."""
    return {name: _told(name, value) for name, value in values.items()}


def _told(name: str, value: Plain) -> Plain:
    if not isinstance(value, str) or _REFERENCE.fullmatch(value):
        return value
    return "***" if SECRET_NAME.search(name) else redact(value)


def redact(text: str) -> str:
    """The text without any secret: known values, passwords in URLs, `password=…`."""
    for secret in sorted(_known, key=len, reverse=True):
        text = text.replace(secret, "***")
    text = _URL_PASSWORD.sub(r"\g<head>***", text)
    return _ASSIGNED.sub(r"\g<head>***", text)
