"""Summaries: many pointers in one file, because each file read costs an object store request.

A pointer is never changed, so its copy in a summary stays valid. A reader of many pointers takes
them from the newest summary, if the listing shows the same versions, and reads the others one by
one. A reader that had to read many of those writes a new summary.
"""

import json
from collections.abc import Mapping
from contextlib import suppress
from typing import Any
from uuid import uuid4

from logdriven_dagster.engine.storage.locations import Folder

MANY = 20
"""The number of files to read from which a summary is used and written."""

_NAME = "summary"


def read_many(
    folder: Folder, listed: Mapping[str, int], wanted: Mapping[str, int]
) -> dict[str, Any]:
    """Return the values of these files of a folder, each given by its name and version.

    Raises FileNotFoundError if one of them was removed since the listing.
    """
    if len(wanted) < MANY or not folder.storage.is_remote:
        return {name: _values(folder, name) for name in wanted}
    summaries = sorted(name for name in listed if name.partition(".")[0] == _NAME)
    known = _read_summary(folder, summaries[-1]) if summaries else {}
    found = {n: known[n][1] for n, version in wanted.items() if known.get(n, [None])[0] == version}
    others = {name: _values(folder, name) for name in wanted.keys() - found.keys()}
    found |= others
    if len(others) >= MANY:
        whole = {name: [listed[name], values] for name, values in found.items()}
        _put(folder, {**{n: e for n, e in known.items() if listed.get(n) == e[0]}, **whole})
        for name in summaries:
            folder.storage.remove(folder.get_subfolder(name).location)
    return found


def _values(folder: Folder, name: str) -> Any:
    return json.loads(folder.storage.read(folder.get_subfolder(name).location))


def _read_summary(folder: Folder, name: str) -> Mapping[str, Any]:
    """Return the contents of a summary: name → version and values; empty if it was replaced."""
    with suppress(FileNotFoundError):
        return _values(folder, name)  # type: ignore[no-any-return]
    return {}


def _put(folder: Folder, pointers: Mapping[str, Any]) -> None:
    """Write a summary. It is optional, so missing write permission is ignored."""
    name = f"{_NAME}.{len(pointers):09}.{uuid4().hex}.json"
    with suppress(PermissionError):
        folder.storage.put_if_absent(
            folder.get_subfolder(name).location, json.dumps(pointers).encode()
        )
