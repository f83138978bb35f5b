"""Secrets: they come from the environment or from files, and never leave again in any text.

A secret is not recognised by its name. Every value of `${env:NAME}` or `${file:/path}` is hidden
from then on, unless it is ordinary: shorter than eight characters, a number, a date, an address of
digits, `localhost`, or a path of this machine. An ordinary value is hidden where a name says that
it is a secret, and so is what a file holds, down to three characters.
"""

import base64
import html
import json
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import TypeAlias
from urllib.parse import quote, quote_plus

from logdriven_dagster.errors import UsageError

Plain: TypeAlias = str | int | float | bool

_SECRET_NAME = re.compile(
    r"pass(word|wd)?|pwd|secret|token|credential|connection.?string"
    r"|(api|access|account|private).?key",
    re.IGNORECASE,
)
_ABOUT_SECRETS = re.compile(
    r"(provider|location|endpoint|url|uri|file|path|class|type|length|enabled|column|key.?id|encoding|interval|timeout|ttl)$",
    re.IGNORECASE,
)
_REFERENCE = re.compile(r"\$\{(?:env:([A-Za-z_][A-Za-z0-9_]*)|file:([^}\s]+))\}")
_USER_INFO = re.compile(r"(?P<head>\w://[^\s/:@]*:)(?P<rest>[^\s\"'<>]+)")
_ASSIGNED = re.compile(
    r"(?P<head>\b(?:password|passwd|pwd)\s{0,9}=\s{0,9})"
    r"(?P<secret>\"[^\"]+\"|'[^']+'|[^\s;&,'\")]+)",
    re.IGNORECASE,
)
_SHORTEST = 3
"""Hiding every occurrence of one or two letters would hide the text, not the secret."""
_ORDINARY = re.compile(r".{0,7}|[\d\s.,:/TZ+-]{1,32}|localhost(:\d+)?", re.DOTALL)
_MARGIN = 500
"""Longer than the passwords that nobody knows of are as a rule."""

_known: set[str] = set()


def names_secret(name: str) -> bool:
    """Whether the name of an option or a variable says that its value is a secret."""
    return bool(_SECRET_NAME.search(name)) and not _ABOUT_SECRETS.search(name)


def resolve(text: str, name: str = "") -> str:
    """Replace each `${env:NAME}` and `${file:/path}`, and hide the values from now on.

    `name`: what the text is the value of. UsageError says what is missing.
    """

    def value(match: re.Match[str]) -> str:
        variable, file = match[1], match[2]
        found = _content(file) if file else _variable(variable)
        if file or names_secret(name) or names_secret(variable) or not _is_ordinary(found):
            remember(found)
        return found

    return _REFERENCE.sub(value, text)


def _variable(name: str) -> str:
    try:
        return os.environ[name]
    except KeyError:
        raise UsageError(f"the environment variable {name} is not set") from None


def _content(file: str) -> str:
    try:
        return Path(file).read_text(encoding="utf-8").rstrip("\r\n")
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or "it is not UTF-8"
        raise UsageError(f"the file {file} of a secret cannot be read: {reason}") from None


def _is_ordinary(value: str) -> bool:
    if _ORDINARY.fullmatch(value):
        return True
    try:
        path = Path(value)
        near = [path, *([path.parent] if len(path.parents) > 1 else [])]
        return path.is_absolute() and any(place.exists() for place in near)
    except (OSError, ValueError):
        return False


def has_reference(text: str) -> bool:
    """Whether a part of the text comes from the environment or from a file."""
    return bool(_REFERENCE.search(text))


def is_reference(text: str) -> bool:
    """Whether all of the text comes from the environment or from a file."""
    return bool(_REFERENCE.fullmatch(text))


def references(text: str) -> list[str]:
    """Return the parts of a text that come from the environment or from a file."""
    return [match[0] for match in _REFERENCE.finditer(text)]


def passwords_in(text: str) -> list[str]:
    """Return what stands as a password in a URL or as `password=`, references too."""
    found = [m["secret"].strip("\"'") for m in _ASSIGNED.finditer(text)]
    found += [m["rest"].rpartition("@")[0] for m in _USER_INFO.finditer(text)]
    return list(filter(None, found))


def remember(secret: str | None) -> None:
    """Hide this value in every later text, also quoted, escaped or encoded, and line by line."""
    if secret and len(secret) >= _SHORTEST:
        _known.update(_forms(secret))
        for line in secret.splitlines():
            if not _is_ordinary(line):
                _known.update(_forms(line))


def _forms(secret: str) -> set[str]:
    quoted = {quote(secret, safe=""), quote_plus(secret), quote(secret, safe=" +"), quote(secret)}
    escaped = {repr(secret)[1:-1], json.dumps(secret)[1:-1], html.escape(secret)}
    return {secret, base64.b64encode(secret.encode()).decode().rstrip("="), *quoted, *escaped}


def redacted_values(values: Mapping[str, Plain]) -> dict[str, Plain]:
    """Redact named values for a log: a reference stays a name, other secrets are hidden."""
    return {name: _redacted_value(name, value) for name, value in values.items()}


def _redacted_value(name: str, value: Plain) -> Plain:
    if not isinstance(value, str) or is_reference(value):
        return value
    return "***" if names_secret(name) else redact(value)


def redact(text: str) -> str:
    """Remove every secret from a text: known values, passwords in URLs, `password=…`."""
    for secret in sorted(_known, key=len, reverse=True):
        text = text.replace(secret, "***")
    text = _USER_INFO.sub(_without_user_info, text)
    return _ASSIGNED.sub(r"\g<head>***", text)


def _without_user_info(match: re.Match[str]) -> str:
    """A password may hold any character but blanks and quotes, so it ends at the last `@`."""
    secret, at, rest = match["rest"].rpartition("@")
    return f"{match['head']}***@{rest}" if at and not is_reference(secret) else match[0]


def redact_start(text: str, length: int) -> str:
    """Redact the start of a text; no half of a secret stays at the cut."""
    margin = max([_MARGIN, *map(len, _known)])
    if len(text) <= length + 2 * margin:
        return redact(text)[:length]
    return redact(text[: length + 2 * margin])[:-margin][:length]
