"""Export of definitions as YAML for people, or JSON; equal definitions give equal text."""

import json
import re
from pathlib import Path
from typing import Any, Literal

import yaml
from pydantic import Field, ValidationError

from logdriven_dagster.config.models.frozen import Model
from logdriven_dagster.config.yaml.bounds import read_yaml
from logdriven_dagster.errors import UsageError
from logdriven_dagster.model.definitions import Kind, Operation

FORMAT = 1

SECTIONS: dict[str, Kind] = {
    "project": Kind.PROJECT,
    "tables": Kind.TABLE,
    "jobs": Kind.JOB,
    "relations": Kind.RELATION,
    "steps": Kind.STEP,
}
"""Sections of an export, in their order."""


class Content(Model):
    """The declared content of a definition; see `config.derived.declaring.declare_all`."""

    values: dict[str, Any]
    settings: dict[str, Any] | None = None
    files: dict[str, str] | None = None

    @property
    def as_dict(self) -> dict[str, Any]:
        """The values and other declared parts, without fields that are None."""
        return self.model_dump(exclude_none=True, exclude={"values"}) | {"values": self.values}


class ExportedDefinition(Model):
    """The latest version of a definition."""

    name: str
    code: str
    version: int = Field(ge=1)
    file_digest: str | None = None
    settings: dict[str, Any] = Field(
        default_factory=dict, description="that operators have changed, as columns: seconds, 0 or 1"
    )
    content: Content


class ExportedVersion(Model):
    """One version of a definition, as an export holds it."""

    version: int = Field(ge=1)
    operation: Operation
    operator: str
    time: str = Field(pattern=r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z$")
    reason: str | None
    file_digest: str | None = None
    columns: dict[str, str | int | None]
    content: Content


class ExportedHistory(Model):
    """All versions of a definition, which may have been deleted since."""

    name: str
    code: str
    versions: tuple[ExportedVersion, ...] = Field(min_length=1)


class Export(Model):
    """An export of all definitions of a project."""

    logdriven_export: Literal[1]
    project: str
    definitions: dict[str, tuple[ExportedDefinition, ...]]
    history: dict[str, tuple[ExportedHistory, ...]] = Field(default_factory=dict)


def format_yaml(export: dict[str, Any]) -> str:
    """Format the export as YAML for people: SQL and Python keep their layout."""
    return str(
        yaml.dump(export, Dumper=_ExportDumper, sort_keys=False, allow_unicode=True, width=100)
    )


def format_json(export: dict[str, Any]) -> str:
    """Format the export as JSON for programs."""
    return json.dumps(export, indent=2, ensure_ascii=False) + "\n"


def parse_export(path: Path, text: str) -> Export:
    """Parse an export. Raises UsageError if it is invalid."""
    try:
        # JSON is not parsed as YAML, which reads some of its texts differently.
        is_json = path.suffix == ".json" or text.lstrip().startswith("{")
        values = json.loads(text) if is_json else read_yaml(text)[1]
        return Export.model_validate(values)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        place = ".".join(map(str, first["loc"]))
        raise UsageError(f"{path}: not an export of definitions: {place}: {first['msg']}") from None
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        raise UsageError(f"{path}: must be YAML or JSON: {error}") from None


_FINE = re.compile(r"[^\s\x85\u2028\u2029][^\r\x85\u2028\u2029]*", re.DOTALL)
_BREAKS = re.compile(r"[\x85\u2028\u2029]")


class _ExportDumper(getattr(yaml, "CSafeDumper", yaml.SafeDumper)):  # type: ignore[misc]
    """YAML dumper that writes multi-line texts as blocks, if YAML reads them back unchanged."""

    def ignore_aliases(self, _data: Any) -> bool:
        """Disable YAML aliases, so that equal values are written out each time."""
        return True


def _represent_text(dumper: Any, text: str) -> Any:
    style = None
    if "\n" in text and _FINE.fullmatch(text):
        style = "|"
    elif _BREAKS.search(text):
        style = '"'
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_ExportDumper.add_representer(str, _represent_text)
