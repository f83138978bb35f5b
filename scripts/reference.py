"""Writes docs/reference.md from the models of the project's files: `python -m scripts.reference`.

Every field has its description and its example at the model, so that editors show them, too
(`logdriven schema --write`). A model that no section names is an error: add a line to SECTIONS.
"""

import re
from collections.abc import Iterator
from datetime import timedelta
from enum import Enum
from inspect import cleandoc
from itertools import groupby
from pathlib import Path
from typing import Any

import yaml
from pydantic import BaseModel
from pydantic.fields import FieldInfo

from logdriven_dagster.config.models import (
    dependencies,
    jobs,
    notifications,
    project,
    quality,
    steps,
    tables,
)
from logdriven_dagster.config.models.fields import WORDS
from logdriven_dagster.config.models.incremental.freshness import FreshnessConfig
from logdriven_dagster.config.models.rules import BUILT_IN
from logdriven_dagster.config.models.settings import Settings
from logdriven_dagster.config.models.types import (
    connections,
    files,
    iceberg,
    jdbc,
    spark_table,
    time_columns,
)
from logdriven_dagster.config.models.types.sources import Source
from logdriven_dagster.config.models.types.targets import TableTarget, Target
from logdriven_dagster.config.yaml.field_names import current_names
from logdriven_dagster.plugins.delta.models import DeltaSource, DeltaTarget
from logdriven_dagster.plugins.formats.models import AvroSource, ExcelSource, FixedWidthSource
from logdriven_dagster.plugins.kafka.models import KafkaConnection, KafkaSource, KafkaTarget
from logdriven_dagster.plugins.table_tests import models as table_tests

PAGE = Path(__file__).resolve().parents[1] / "docs/reference.md"

SECTIONS: dict[str, dict[str, type[BaseModel]]] = {
    "Project: `logdriven.yaml`": {
        "logdriven.yaml": project.ProjectConfig,
        "defaults": project.Defaults,
        "connections": connections.ConnectionConfig,
        "connections: kafka": KafkaConnection,
        "jdbc of a connection": connections.JdbcConfig,
        "spark": project.SparkConfig,
        "sensor": project.SensorConfig,
        "quality_rules": quality.RuleDefinition,
        "recipients: email": notifications.EmailRecipient,
        "recipients: slack": notifications.SlackRecipient,
        "recipients: webhook": notifications.WebhookRecipient,
        "recipients: apprise": notifications.AppriseRecipient,
        "notify": notifications.NotifyRule,
    },
    "Tables: `tables/**/*.yaml`": {
        "table": tables.TableConfig,
        "settings": Settings,
        "depends_on": dependencies.Dependency,
        "depends_on: an asset": dependencies.AssetDependency,
        "freshness": FreshnessConfig,
        "on_change": tables.OnChange,
        "restate of on_change": tables.RestateRange,
        "steps": steps.StepConfig,
        "commit_before_read": steps.CommittedSql,
        "loop_over": steps.LoopOver,
        "checks": steps.CheckConfig,
        "quality": quality.QualityConfig,
        "a rule of quality": quality.RuleUse,
    },
    "Tests of tables: `tests/**/*.yaml`": {
        "test": table_tests.TableTest,
        "windows of a test": table_tests.WindowsPart,
        "window of a test": table_tests.WindowBounds,
        "given": table_tests.GivenRows,
        "expect": table_tests.Expectation,
    },
    "Sources": {
        "every source": Source,
        "window_column of a source": time_columns.TimeColumn,
        "every source of files": files.FilesSource,
        "every source of text files": files.RecordsSource,
        "source: parquet, orc": files.FileSource,
        "source: csv": files.CsvSource,
        "source: json": files.JsonSource,
        "source: text": files.TextSource,
        "source: avro": AvroSource,
        "source: excel": ExcelSource,
        "source: fixed_width": FixedWidthSource,
        "source: jdbc": jdbc.JdbcSource,
        "source: kafka": KafkaSource,
        "source: iceberg": iceberg.IcebergSource,
        "source: delta": DeltaSource,
        "source: table": spark_table.CatalogSource,
    },
    "Targets": {
        "every target": Target,
        "every target that is a table": TableTarget,
        "target: iceberg": iceberg.IcebergTarget,
        "target: delta": DeltaTarget,
        "target: jdbc": jdbc.JdbcTarget,
        "target: parquet, orc, csv, json": files.FileTarget,
        "target: kafka": KafkaTarget,
    },
    "Jobs: `jobs/*.yaml`": {
        "job: standard": jobs.StandardJob,
        "relations": jobs.Relation,
        "job: maintenance": jobs.MaintenanceJob,
        "steps of a maintenance job": jobs.MaintenanceStep,
    },
}
HEAD = """# YAML reference

<!-- Written by `make reference` from the models; edit those. -->

All keys of `logdriven.yaml`, of the files below `tables/` and of those below `jobs/`:

```yaml
# tables/ods/orders.yaml
table: ods.orders
period: 1 day
default_start: 2026-01-01
steps:
  - step: load
    source: {type: parquet, path: data/orders, window_column: created_at}
    target: {type: iceberg}
```

- `logdriven validate` refuses an unknown key with its line and a similar known key.
- `logdriven schema --write` writes these fields as JSON schemas for editors.
- `${env:NAME}` in any text is replaced by an environment variable, and `${file:/run/secrets/name}`
  by the content of a file.
- A file below `tables/` or `jobs/` with `for_each` (a list, `{csv: FILE}` or `{yaml: FILE}`) is a
  template: see [Templates, properties and lineage](templates.md).
"""
_HEADINGS = {model: heading for part in SECTIONS.values() for heading, model in part.items()}
_BLOCKS = {model.__name__: model for model in _HEADINGS}
_WORDS = {
    "string": "text",
    "integer": "whole number",
    "number": "number",
    "boolean": "true or false",
    "object": "block",
    "null": "",
}
_OPTION = "text or whole number or number or true or false"
Schema = dict[str, Any]


def page() -> str:
    """Return the whole page."""
    parts = [HEAD]
    for title, sections in SECTIONS.items():
        parts += [f"## {title}\n"]
        parts += [line for heading, model in sections.items() for line in _section(heading, model)]
    return "\n".join([*parts, *_built_in(), *_renamed()])


def fields(model: type[BaseModel]) -> Iterator[tuple[str, FieldInfo, Schema]]:
    """Yield key, field and JSON schema of what a section tells, but not what a base's does."""
    bases = [base for base in model.__mro__[1:] if base in _HEADINGS]
    elsewhere = {name for base in bases for name in base.model_fields} - {*model.__annotations__}
    schema = model.model_json_schema()
    for name, field in model.model_fields.items():
        if name not in elsewhere:
            key = field.alias or name
            yield key, field, {"$defs": schema.get("$defs", {}), **schema["properties"][key]}


def _section(heading: str, model: type[BaseModel]) -> Iterator[str]:
    yield f"### {heading}\n"
    yield f"{_said(model)}\n"
    if bases := [_link(base) for base in model.__mro__[1:] if base in _HEADINGS]:
        yield f"It also has the fields of {' and '.join(bases)}.\n"
    rows = list(fields(model))
    if rows:
        yield "| field | type | default | meaning |\n| --- | --- | --- | --- |"
    for key, field, schema in rows:
        meaning = _meaning(model, key, field, schema)
        cells = (f"`{key}`", type_words(schema, schema["$defs"]), _default(field), meaning)
        yield "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"
    yield ""


def _said(model: type[BaseModel]) -> str:
    """Return what a docstring says to users: all but where a behaviour comes from."""
    paragraphs = cleandoc(model.__doc__ or "").split("\n\n")
    kept = (re.sub(r"\s*Sources?: .*", "", text, flags=re.DOTALL) for text in paragraphs)
    return "\n\n".join(filter(None, kept))


def _link(model: type[BaseModel]) -> str:
    heading = _HEADINGS[model]
    anchor = re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-")
    return f"[{heading}](#{anchor})"


def type_words(schema: Schema, known: Schema) -> str:
    """Return the type of a field in plain words, with links to the sections of blocks."""
    if words := schema.get(WORDS):
        return str(words)
    if reference := schema.get("$ref", "").rpartition("/")[2]:
        model = _BLOCKS.get(reference)
        return _link(model) if model else type_words(known[reference], known)
    if values := schema.get("enum") or ([schema["const"]] if "const" in schema else []):
        return " or ".join(f"`{value}`" for value in values)
    if choices := schema.get("oneOf") or schema.get("anyOf"):
        words = (type_words(each, known) for each in choices)
        return " or ".join(dict.fromkeys(filter(None, words))).replace(_OPTION, "value")
    if schema.get("type") == "array":
        return f"list of {type_words(schema['items'], known)}"
    values = next(iter(schema.get("patternProperties", {}).values()), None)
    if isinstance(values := values or schema.get("additionalProperties"), dict):
        return f"name → {type_words(values, known)}"
    return _WORDS[schema["type"]]


def _default(field: FieldInfo) -> str:
    if field.is_required():
        return "required"
    value = field.get_default(call_default_factory=True)
    if value in (None, (), {}) or isinstance(value, BaseModel):
        return "—"
    return f"`{_written(value)}`"


def _written(value: Any) -> str:
    """Write a value as a file would have it."""
    if isinstance(value, timedelta):
        return f"{round(value.total_seconds() / 60)} min"
    if isinstance(value, tuple):
        return f"[{', '.join(map(_written, value))}]"
    if isinstance(value, bool):
        return str(value).lower()
    return str(value.value if isinstance(value, Enum) else value)


def _meaning(model: type[BaseModel], key: str, field: FieldInfo, schema: Schema) -> str:
    if field.description is None and key == "type":
        return "the type"
    if field.description is None and model is project.Defaults:
        return f"see {_link(Settings if key in Settings.model_fields else tables.TableConfig)}"
    found = example(field, schema)
    shown = yaml.safe_dump({key: found}, default_flow_style=True, allow_unicode=True, width=999)
    written = "" if found is None else f". Example: `{shown.strip()[1:-1]}`"
    return f"{field.description}{written}"


def example(field: FieldInfo, schema: Schema) -> Any:
    """Return the example of a field: its own, that of its type, or one that its type allows."""
    known, default = schema.get("$defs", {}), field.get_default(call_default_factory=True)
    if reference := schema.get("$ref", "").rpartition("/")[2]:
        return None if reference in _BLOCKS else example(field, known[reference])
    if examples := schema.get("examples"):
        return examples[0]
    if schema.get("type") == "boolean":
        return not default
    if values := schema.get("enum") or ([schema["const"]] if "const" in schema else []):
        return next((value for value in values if value != default), values[0])
    if schema.get("type") == "integer":
        return default if isinstance(default, int) and default else 1
    for choice in schema.get("anyOf", []):
        if (found := example(field, {"$defs": known, **choice})) is not None:
            return found
    return None


def _built_in() -> Iterator[str]:
    yield "## Built-in names\n"
    yield "### Built-in data quality rules\n"
    yield "NULL satisfies every rule that is not about NULL. See [Data quality](data-quality.md).\n"
    yield "| rule | a row satisfies it if | parameters |\n| --- | --- | --- |"
    for name, rule in BUILT_IN.items():
        yield f"| `{name}` | {rule.says} | {', '.join(sorted(rule.needs | rule.takes)) or '—'} |"
    yield "\n### storage\n"
    yield "`storage` accepts these properties, with the names that PyIceberg uses. See"
    yield "[Object stores and catalogs](object-stores.md).\n"
    for store, names in groupby(sorted(project.STORAGE_PROPERTIES), lambda n: n.split(".")[0]):
        yield f"- {store}: {', '.join(f'`{name}`' for name in names)}"
    yield ""


def _renamed() -> Iterator[str]:
    yield "## Renamed keys\n"
    yield "The former name of a key works, with a warning that names file, line and new name."
    yield "`logdriven validate --json` lists the warnings. Both names at once are an error.\n"
    yield "| former name | name | in |\n| --- | --- | --- |"
    for model in _HEADINGS:
        own = {name: new for name, new in current_names(model).items() if _is_own(model, name)}
        for former, name in sorted(own.items()):
            yield f"| `{former}` | `{name}` | {_link(model)} |"
    yield ""


def _is_own(model: type[BaseModel], former: str) -> bool:
    """Return True unless the section of a base shows the field with this former name."""
    bases = (base for base in model.__mro__[1:] if base in _HEADINGS)
    return not any(former in current_names(base) for base in bases)


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
