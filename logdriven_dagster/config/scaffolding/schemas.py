"""JSON schemas of the project's files, generated from their models."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pydantic import BaseModel

SCHEMA_FOLDER = Path(".logdriven") / "schema"
_REFERENCE = {"type": "string", "pattern": r"\$\{[^}]+\}"}
"""A text with `${each.name}` or `${group.key}`, replaced when the project is loaded."""
_FOR_EACH = {
    "description": "the items of a template, which defines a table or job for each of them",
    "anyOf": [
        {"type": "array", "minItems": 1},
        {"type": "object", "properties": {"csv": {"type": "string"}}, "required": ["csv"]},
        {"type": "object", "properties": {"yaml": {"type": "string"}}, "required": ["yaml"]},
    ],
}
_DIALECT = "https://json-schema.org/draft/2020-12/schema"


def build_file_schemas() -> dict[str, dict[str, Any]]:
    """Return the JSON schema of each kind of file (`project`, `table`, `job`)."""
    from logdriven_dagster.config.models.jobs import MaintenanceJob, StandardJob
    from logdriven_dagster.config.models.project import Defaults, ProjectConfig
    from logdriven_dagster.config.models.tables import TableConfig

    table = _build_template_schema(_build_schema(TableConfig))
    # A table file need not set fields that `defaults` in logdriven.yaml may set.
    table["required"] = [name for name in table["required"] if name not in Defaults.model_fields]
    jobs = [
        _build_template_schema(model.model_json_schema()) for model in (StandardJob, MaintenanceJob)
    ]
    job = {"$schema": _DIALECT, "anyOf": jobs}
    return {"project": _build_schema(ProjectConfig), "table": table, "job": job}


def _build_schema(model: "type[BaseModel]") -> dict[str, Any]:
    return {"$schema": _DIALECT, **model.model_json_schema()}


def _build_template_schema(schema: dict[str, Any]) -> dict[str, Any]:
    """Return the schema of a file that may have `for_each`, and references instead of values."""
    referable: dict[str, Any] = _make_referable(schema)
    return referable | {"properties": referable["properties"] | {"for_each": _FOR_EACH}}


def _make_referable(schema: Any) -> Any:
    if isinstance(schema, list):
        return [_make_referable(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    changed = {}
    for name, part in schema.items():
        if name in ("properties", "$defs") and isinstance(part, dict):
            wrap = _allow_reference if name == "properties" else _make_referable
            # `type` is kept: editors need it to choose the fields.
            changed[name] = {k: v if k == "type" else wrap(v) for k, v in part.items()}
        elif name in ("items", "additionalProperties") and isinstance(part, dict):
            changed[name] = _allow_reference(part)
        else:
            changed[name] = _make_referable(part)
    return changed


def _allow_reference(schema: Any) -> Any:
    if schema.get("type") == "string" and not {"pattern", "enum", "const"} & schema.keys():
        return schema
    kept = ("title", "description", "default", "deprecated")
    annotations = {name: schema[name] for name in kept if name in schema}
    return annotations | {"anyOf": [_make_referable(schema), _REFERENCE]}


def write_schemas(root: Path) -> list[Path]:
    """Write `.logdriven/schema/<kind>.json` into a project folder, and return the files."""
    folder = root / SCHEMA_FOLDER
    folder.mkdir(parents=True, exist_ok=True)
    written = []
    for kind, schema in build_file_schemas().items():
        path = folder / f"{kind}.json"
        path.write_text(json.dumps(schema, indent=2) + "\n", encoding="utf-8")
        written.append(path)
    return written
