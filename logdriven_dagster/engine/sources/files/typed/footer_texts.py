"""Footers as texts, so that the run log keeps them for later processes."""

import json
from functools import lru_cache
from typing import Any

from logdriven_dagster._version import __version__
from logdriven_dagster.engine.sources.files.typed.held_types import Array, Held, Map, Struct
from logdriven_dagster.engine.sources.files.typed.newer_features import Features


def write_footer(columns: Struct, newer: Features, *, is_of_java: bool) -> str:
    """Return the content of a footer as JSON."""
    features = sorted([*names, feature] for names, feature in newer)
    content = {"by": _get_readers(), "columns": _write(columns), "java": is_of_java}
    return json.dumps({**content, "newer": features}, separators=(",", ":"))


@lru_cache(maxsize=10_000)
def parse_footer(text: str) -> tuple[Struct, Features, bool] | None:
    """Return columns, features, and whether a Java library wrote the file.

    None if other versions of this package or of PyArrow have read the footer.
    """
    content = json.loads(text)
    if content["by"] != _get_readers():
        return None
    columns = _parse(content["columns"])
    assert isinstance(columns, Struct)
    newer = frozenset((tuple(names), feature) for *names, feature in content["newer"])
    return columns, newer, content["java"]


@lru_cache(maxsize=1)
def _get_readers() -> str:
    import pyarrow as pa

    return f"{__version__} {pa.__version__}"


def _write(held: Held) -> Any:
    match held:
        case Struct():
            return {"fields": [[name, _write(part)] for name, part in held.fields]}
        case Array():
            return [_write(held.element)]
        case Map():
            return [_write(held.key), _write(held.value)]
        case str():
            return held


def _parse(content: Any) -> Held:
    match content:
        case dict():
            return Struct(tuple((name, _parse(part)) for name, part in content["fields"]))
        case [element]:
            return Array(_parse(element))
        case [key, value]:
            return Map(_parse(key), _parse(value))
        case _:
            return str(content)
