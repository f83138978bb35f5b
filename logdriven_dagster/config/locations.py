"""Locations of data, as the text of a URL without percent-encoding.

Spark and PyIceberg both read this form. A local path becomes `file:///…`.
"""

import os
import re
from pathlib import Path

OBJECT_STORES = {
    **dict.fromkeys(("s3", "s3a", "s3n"), "s3"),
    **dict.fromkeys(("gs", "gcs"), "gs"),
    **dict.fromkeys(("abfs", "abfss"), "abfs"),
}
"""Canonical scheme of each spelling of an object store's scheme."""

_URL = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):/")


def validate_location(text: str) -> str:
    """Validate a path or URL from the configuration. Raises ValueError for an unsupported store."""
    if is_remote(text) and not re.match(r"[a-z0-9]+://[^/\s]+", text):
        raise ValueError(f"{text}: the name of a bucket or container must follow ://")
    if not is_remote(text):
        get_local_folder(text)
    return text


def is_remote(text: str) -> bool:
    """Return True if a path or URL refers to an object store."""
    return get_scheme(text) in OBJECT_STORES


def get_scheme(text: str) -> str:
    """Return the scheme of a URL, or `file` for a path."""
    found = _URL.match(text)
    return found[1] if found else "file"


def get_local_folder(text: str) -> str:
    """Return the folder of a path or `file:` URL. Raises ValueError for other file systems."""
    if text.startswith("file:"):
        return re.sub("^file:/*(?=/)", "", text).removeprefix("file:")
    if url := _URL.match(text):
        raise ValueError(
            "must be a local folder, a folder of a mounted file system, or a folder of "
            f"an object store (s3://, gs://, abfss://); {url[1]}:// is not supported"
        )
    return text


def resolve_location(text: str | Path) -> str:
    """Return the canonical location of a path or URL; all spellings of a local path are equal."""
    text = str(text)
    if is_remote(text):
        scheme, _, rest = text.partition("://")
        return f"{scheme}://{re.sub('/+', '/', rest).rstrip('/')}"
    try:
        return f"file://{os.path.normpath(get_local_folder(text))}"
    except ValueError:
        return text


def normalize_location(location: str) -> str:
    """Return a canonical text for a location, equal for all schemes of the same bucket."""
    scheme, separator, rest = resolve_location(location).partition("://")
    return f"{OBJECT_STORES.get(scheme, scheme)}{separator}{rest}"


def as_path(location: str) -> str:
    """Return a location for display: a local path, or the URL of a remote location."""
    return location.removeprefix("file://")
