"""JSON schemas of the project's files, from the models that check them."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pydantic import BaseModel

SCHEMA_FOLDER = Path(".logdriven") / "schema"
_DIALECT = "https://json-schema.org/draft/2020-12/schema"


def file_schemas() -> dict[str, dict[str, Any]]:
    """File kind (`project`, `table`, `job`) → its JSON schema."""
    from logdriven_dagster.config.jobs import MaintenanceJob, StandardJob
    from logdriven_dagster.config.models import Defaults, ProjectConfig, TableConfig

    table = _schema(TableConfig)
    # What `defaults` in logdriven.yaml may give, a table file need not.
    table["required"] = [name for name in table["required"] if name not in Defaults.model_fields]
    jobs = [StandardJob.model_json_schema(), MaintenanceJob.model_json_schema()]
    job = {"$schema": _DIALECT, "anyOf": jobs}
    return {"project": _schema(ProjectConfig), "table": table, "job": job}


def _schema(model: "type[BaseModel]") -> dict[str, Any]:
    return {"$schema": _DIALECT, **model.model_json_schema()}


def write_schemas(root: Path) -> list[Path]:
    """Write `.logdriven/schema/<kind>.json` into a project folder; gives the files."""
    folder = root / SCHEMA_FOLDER
    folder.mkdir(parents=True, exist_ok=True)
    written = []
    for kind, schema in file_schemas().items():
        path = folder / f"{kind}.json"
        path.write_text(json.dumps(schema, indent=2) + "\n", encoding="utf-8")
        written.append(path)
    return written
