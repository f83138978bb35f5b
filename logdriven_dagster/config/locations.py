"""Locations: where bytes are, as the text of a URL without any escapes.

Spark and PyIceberg both read it so. A path of this machine becomes `file:///…`.
"""

import os
import re
from pathlib import Path

OBJECT_STORES = {
    **dict.fromkeys(("s3", "s3a", "s3n"), "s3"),
    **dict.fromkeys(("gs", "gcs"), "gs"),
    **dict.fromkeys(("abfs", "abfss"), "abfs"),
}
"""Scheme of URLs → the one that stands for all the spellings of a store."""

_URL = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):/")


def location_text(text: str) -> str:
    """Check the text of a path or URL as users write it; ValueError: a store that is not known."""
    if is_remote(text) and not re.match(r"[a-z0-9]+://[^/\s]+", text):
        raise ValueError(f"{text}: the name of a bucket or container must stand behind ://")
    if not is_remote(text):
        local_folder(text)
    return text


def is_remote(text: str) -> bool:
    """Whether a path or URL is one of an object store."""
    return scheme_of(text) in OBJECT_STORES


def scheme_of(text: str) -> str:
    """Return the scheme of a URL; `file` for a path."""
    found = _URL.match(text)
    return found[1] if found else "file"


def local_folder(text: str) -> str:
    """The folder that a path or `file:` URL names; ValueError for a URL of another file system."""
    if text.startswith("file:"):
        return re.sub("^file:/*(?=/)", "", text).removeprefix("file:")
    if url := _URL.match(text):
        raise ValueError(
            "must be a folder of this machine, also of a file system mounted on it, or one of an"
            f" object store (s3://, gs://, abfss://); {url[1]}:// is not supported"
        )
    return text


def location_of(text: str | Path) -> str:
    """Return the location that a path or URL names, one text for all spellings of a local one."""
    text = str(text)
    if is_remote(text):
        scheme, _, rest = text.partition("://")
        return f"{scheme}://{re.sub('/+', '/', rest).rstrip('/')}"
    try:
        return f"file://{os.path.normpath(local_folder(text))}"
    except ValueError:
        return text


def same_place(location: str) -> str:
    """Return one text for all names of a place: stores have several schemes for the same bucket."""
    scheme, separator, rest = location_of(location).partition("://")
    return f"{OBJECT_STORES.get(scheme, scheme)}{separator}{rest}"


def as_path(location: str) -> str:
    """Return a location as people write it: a path of this machine, or the URL of another place."""
    return location.removeprefix("file://")
