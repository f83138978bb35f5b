"""The effect of a table's definition: all that decides the rows of a window, in canonical form.

Versions of a table with the same effect differ only cosmetically, see `fields`. What lies outside
of the table's files is not part of it: variables, quality rules and connections of the project,
and Python modules that are imported by name.
"""

import hashlib
import json
from collections.abc import Mapping
from typing import Any
from zoneinfo import ZoneInfo

from pydantic import BaseModel, ValidationError

from logdriven_dagster.config.changes.canonical import canonicalize_python, canonicalize_sql
from logdriven_dagster.config.changes.fields import BOUNDS, Effect, get_effect
from logdriven_dagster.config.derived.contents import rename_content
from logdriven_dagster.config.models.code_files import find_named_files
from logdriven_dagster.config.models.steps import LoopOver, StepConfig
from logdriven_dagster.config.models.tables import TableConfig
from logdriven_dagster.config.project import Project
from logdriven_dagster.config.yaml.documents import read_text
from logdriven_dagster.model.definitions import Kind, serialize_canonical

_UTC = ZoneInfo("UTC")


def read_table(content: Mapping[str, Any]) -> TableConfig | None:
    """Return the table of a registered content; None if this release cannot read it."""
    values = rename_content(Kind.TABLE, content)["values"]
    try:
        return TableConfig.model_validate(values, context={"zone": _UTC})
    except ValidationError:
        return None


def compute_effect(content: Mapping[str, Any]) -> str:
    """Return the effect of a registered content as canonical text, to be compared with others."""
    table = read_table(content)
    if table is None:
        return serialize_canonical({"values": content["values"], "files": content.get("files", {})})
    return _serialize(table, content.get("files", {}))


def compute_effect_digest(project: Project, table: TableConfig) -> str:
    """Return a digest of the effect of a table of a loaded project."""
    folder = project.files[table.table].parent
    named = find_named_files(table.model_dump(mode="json", include={"steps"}))
    files = {path: read_text(folder / path) for path in named if (folder / path).is_file()}
    return hashlib.sha256(_serialize(table, files).encode()).hexdigest()


def _serialize(table: TableConfig, files: Mapping[str, str]) -> str:
    return json.dumps(reduce_value(table, files), sort_keys=True, default=str, ensure_ascii=False)


def reduce_value(value: Any, files: Mapping[str, str]) -> Any:
    """Return the fields of a value that have an effect, without those that have their defaults."""
    if isinstance(value, BaseModel):
        return _reduce_model(value, files)
    if isinstance(value, Mapping):
        return {str(name): reduce_value(each, files) for name, each in value.items()}
    if isinstance(value, (tuple, list)):
        return [reduce_value(each, files) for each in value]
    return value if isinstance(value, (bool, int, float, type(None))) else str(value)


def _reduce_model(model: BaseModel, files: Mapping[str, str]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, field in type(model).model_fields.items():
        value = getattr(model, name)
        ignored = isinstance(model, TableConfig) and name in BOUNDS
        if ignored or get_effect(type(model), name) is Effect.COSMETIC:
            continue
        if value != field.get_default(call_default_factory=True) or name == "type":
            found[name] = reduce_value(value, files)
    if isinstance(model, (StepConfig, LoopOver)) and model.sql is not None:
        found["sql"] = canonicalize_sql(model.sql)
    if isinstance(model, StepConfig) and model.sql_file in files:
        # A query may move into a file, or out of it.
        found["sql"] = canonicalize_sql(files[found.pop("sql_file")])
    if (python := getattr(model, "python", None)) is not None:
        path = python.rpartition(":")[0]
        if path in files:
            found["code"] = canonicalize_python(files[path])
    return found
