"""Table files in the form of Dagster components: `defs.yaml` with a type and attributes."""

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from logdriven_dagster.config.yaml.documents import Document

TABLE_COMPONENT = "logdriven_dagster.TableComponent"
COMPONENT_FILES = ("defs.yaml", "defs.yml")
_KNOWN = ("type", "attributes", "requirements")
"""Fields of a component file that are valid for a table; only `dg` reads the third."""


def unwrap_component(document: Document) -> Document:
    """Return the table that a component file contains: its attributes, with their lines.

    Other documents are returned unchanged. Raises ConfigError for features of Dagster's components
    that tables do not support.
    """
    values = document.values
    if document.path.name not in COMPONENT_FILES or "type" not in values:
        return document
    if values["type"] != TABLE_COMPONENT:
        raise document.error(("type",), f"must be {TABLE_COMPONENT} below a project's folder")
    for name in values:
        if name not in _KNOWN:
            fix = "use `translation` of the project's component"
            raise document.error((name,), "is not a field of a table", fix)
    attributes = values.get("attributes")
    if not isinstance(attributes, dict):
        raise document.error(("attributes",), "must be the fields of a table", "begin with `table`")
    if template := _find_template(attributes):
        fix = "write ${env:NAME} for a variable of the environment"
        raise document.error(("attributes", *template), "{{ … }} is not replaced in tables", fix)
    lines = {place[1:]: line for place, line in document.lines.items() if place[0] == "attributes"}
    return replace(document, values=attributes, lines=lines)


def _find_template(value: Any) -> tuple[str | int, ...] | None:
    """Return the location of the first Dagster template, or None; `()` is the value itself."""
    if isinstance(value, str):
        return () if "{{" in value else None
    parts: Iterable[tuple[Any, Any]] = enumerate(value) if isinstance(value, list) else ()
    for name, part in value.items() if isinstance(value, dict) else parts:
        if (place := _find_template(part)) is not None:
            return (name, *place)
    return None
