"""Locations: where bytes are, as the text of a URL without any escapes.

Spark and PyIceberg both read it so. A path of this machine becomes `file:///…`.
"""

import os
import re
from pathlib import Path


def local_folder(text: str) -> str:
    """The folder that a path or `file:` URL names; ValueError for a URL of another file system."""
    if text.startswith("file:"):
        return re.sub("^file:/*(?=/)", "", text).removeprefix("file:")
    if url := re.match(r"([A-Za-z][A-Za-z0-9+.-]+):/", text):
        raise ValueError(
            f"must be a folder of this machine, also of a file system mounted on it;"
            f" {url[1]}:// is not supported"
        )
    return text


def location_of(text: str | Path) -> str:
    """Return the location that a path or URL names, one text for all spellings of a local one."""
    try:
        return f"file://{os.path.normpath(local_folder(str(text)))}"
    except ValueError:
        return str(text)


def as_path(location: str) -> str:
    """Return a location as people write it: a path of this machine, or the URL of another place."""
    return location.removeprefix("file://")
