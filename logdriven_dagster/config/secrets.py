"""Secrets: resolved from the environment or from files, and redacted in all output.

A secret is not recognised by its name. Every value of `${env:NAME}` or `${file:/path}` is redacted
once it is resolved, unless it is ordinary: shorter than eight characters, a number, a date, an IP
address, `localhost`, or a local path. An ordinary value is redacted if its name marks it as a
secret. So is the content of a file, down to three characters.
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

import yaml

from logdriven_dagster.errors import UsageError

Plain: TypeAlias = str | int | float | bool

_SECRET_NAME = re.compile(
    r"pass(word|wd)?|pwd|secret|token|credential|connection.?string"
    r"|(api|access|account|private|pvt|sas|shared|signing).?key",
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
"""Shortest secret that is redacted: replacing one or two letters would garble any text."""
_ORDINARY = re.compile(r".{0,7}|[\d\s.,:/TZ+-]{1,32}|localhost(:\d+)?", re.DOTALL)
_LONGEST = 60
"""Maximum number of characters of a value in a message."""
_MARGIN = 500
"""Characters around a cut that are redacted too: longer than most unregistered passwords."""

_known: set[str] = set()


def names_secret(name: str) -> bool:
    """Return True if the name of an option or variable marks its value as a secret."""
    return bool(_SECRET_NAME.search(name)) and not _ABOUT_SECRETS.search(name)


def resolve(text: str, name: str = "") -> str:
    """Replace each `${env:NAME}` and `${file:/path}`, and register the values for redaction.

    `name` is that of the option or variable with this text. Raises UsageError for a missing value.
    """

    def value(match: re.Match[str]) -> str:
        variable, file = match[1], match[2]
        found = _read_content(file) if file else _read_variable(variable)
        if file or names_secret(name) or names_secret(variable) or not _is_ordinary(found):
            remember(found)
        return found

    return _REFERENCE.sub(value, text)


def _read_variable(name: str) -> str:
    try:
        return os.environ[name]
    except KeyError:
        raise UsageError(f"the environment variable {name} is not set") from None


def _read_content(file: str) -> str:
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
    """Return True if `text` contains a reference to the environment or a file."""
    return bool(_REFERENCE.search(text))


def is_reference(text: str) -> bool:
    """Return True if `text` is a single reference to the environment or a file."""
    return bool(_REFERENCE.fullmatch(text))


def find_references(text: str) -> list[str]:
    """Return the references to the environment or files in a text."""
    return [match[0] for match in _REFERENCE.finditer(text)]


def find_passwords(text: str) -> list[str]:
    """Return passwords in URLs and after `password=`, including references."""
    found = [m["secret"].strip("\"'") for m in _ASSIGNED.finditer(text)]
    found += [m["rest"].rpartition("@")[0] for m in _USER_INFO.finditer(text)]
    return list(filter(None, found))


def remember(secret: str | None) -> None:
    """Register a secret for redaction: also quoted, escaped or encoded, and line by line."""
    if secret and len(secret) >= _SHORTEST:
        _known.update(_list_forms(secret))
        for line in secret.splitlines():
            if not _is_ordinary(line):
                _known.update(_list_forms(line))


def _list_forms(secret: str) -> set[str]:
    quoted = {quote(secret, safe=""), quote_plus(secret), quote(secret, safe=" +"), quote(secret)}
    escaped = {repr(secret)[1:-1], json.dumps(secret)[1:-1], html.escape(secret)}
    return {secret, base64.b64encode(secret.encode()).decode().rstrip("="), *quoted, *escaped}


def redact_values(values: Mapping[str, Plain]) -> dict[str, Plain]:
    """Redact named values for a log: references are kept, other secrets are hidden."""
    return {name: _redact_value(name, value) for name, value in values.items()}


def _redact_value(name: str, value: Plain) -> Plain:
    if not isinstance(value, str) or is_reference(value):
        return value
    return "***" if names_secret(name) else redact(value)


def redact(text: str) -> str:
    """Redact every secret in a text: registered values, passwords in URLs, `password=…`."""
    for secret in sorted(_known, key=len, reverse=True):
        text = text.replace(secret, "***")
    text = _USER_INFO.sub(_redact_user_info, text)
    return _ASSIGNED.sub(r"\g<head>***", text)


def _redact_user_info(match: re.Match[str]) -> str:
    """Redact user info; a password may contain `@`, so that it ends at the last one."""
    secret, at, rest = match["rest"].rpartition("@")
    return f"{match['head']}***@{rest}" if at and not is_reference(secret) else match[0]


def redact_start(text: str, length: int) -> str:
    """Redact the first `length` characters of a text, also a secret that the cut would split."""
    margin = max([_MARGIN, *map(len, _known)])
    if len(text) <= length + 2 * margin:
        return redact(text)[:length]
    return redact(text[: length + 2 * margin])[:-margin][:length]


def show_value(value: object) -> str:
    """Return a value in YAML notation for a message, redacted and cut to a short text."""
    if isinstance(value, str):
        text = repr(str(value))
    else:
        plain = json.loads(json.dumps(value, default=str))
        flow = yaml.safe_dump(plain, default_flow_style=True, allow_unicode=True, width=10_000)
        text = flow.removesuffix("...\n").strip()
    cut = redact_start(text, _LONGEST)
    return cut if len(text) <= _LONGEST else f"{cut} …"
