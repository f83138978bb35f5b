"""Contents of definitions as the registry stores them."""

import os
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from logdriven_dagster.config.models.code_files import explain_misplaced_content
from logdriven_dagster.config.models.jobs import choose_job_model
from logdriven_dagster.config.models.project import ProjectConfig
from logdriven_dagster.config.models.tables import TableConfig
from logdriven_dagster.config.yaml.documents import Document
from logdriven_dagster.config.yaml.renamed_fields import rename_to_current, rename_to_former
from logdriven_dagster.errors import ConfigError, InvalidProjectError
from logdriven_dagster.model.definitions import (
    Declared,
    Kind,
    build_code,
    serialize_canonical,
)


def write_registered(
    parent: Path,
    project: str,
    kind: Kind,
    name: str,
    content: Mapping[str, Any],
    *,
    label: str | None = None,
) -> Document:
    """Write a registered definition below `parent`, with the files that it names, as a document.

    `label` describes its version in error messages. Raises InvalidProjectError, and writes nothing,
    if one of the files would lie elsewhere.
    """
    files: Mapping[str, str] = content.get("files", {})
    code, text = build_code(project, kind, name), serialize_canonical(content)
    folder = parent / code / Declared(kind, name, text).digest[:16]
    if problem := explain_misplaced_content(content):
        wrong = ConfigError(folder / f"{name}.yaml", None, "", problem, item=label)
        raise InvalidProjectError([wrong])
    # As deep as paths lead upwards, so that they stay inside.
    folder /= "/".join(["in"] * max((path.split("/").count("..") for path in files), default=0))
    for path, written in files.items():
        file = folder / path
        if not file.is_file():
            file.parent.mkdir(parents=True, exist_ok=True)
            if not file.parent.resolve().is_relative_to(parent.resolve()):  # a symbolic link
                raise InvalidProjectError([ConfigError(file, None, "", "lies behind a link")])
            # Another process may write the same file; readers must never see half of it.
            draft = file.with_name(f"{file.name}.{os.getpid()}.{threading.get_ident()}")
            draft.write_text(written, encoding="utf-8")
            draft.replace(file)
    values = dict(rename_content(kind, content)["values"])
    if kind is Kind.TABLE:
        values["table"] = name  # a renamed table has versions with its earlier name
    return Document(folder / f"{name}.yaml", values, {}, label)


def declare_content(
    kind: Kind, name: str, content: Mapping[str, Any], columns: Mapping[str, Any] | None = None
) -> Declared:
    """Return the declaration of a content that has the current names of its fields.

    The same content with their former names, as it may be registered, is the same definition.
    """
    model = _get_model(kind, content["values"])
    values = None if model is None else rename_to_former(content["values"], model)
    former = None if values is None else serialize_canonical({**content, "values": values})
    return Declared(kind, name, serialize_canonical(content), columns or {}, former)


def rename_content(kind: Kind, content: Mapping[str, Any]) -> dict[str, Any]:
    """Return a registered content with the current names of its fields."""
    model = _get_model(kind, content["values"])
    if model is None:
        return dict(content)
    return {**content, "values": rename_to_current(content["values"], model)}


def _get_model(kind: Kind, values: Mapping[str, Any]) -> type[BaseModel] | None:
    """Return the model of a file; None for a definition that is derived from a table or job."""
    match kind:
        case Kind.PROJECT:
            return ProjectConfig
        case Kind.TABLE:
            return TableConfig
        case Kind.JOB:
            return choose_job_model(dict(values))
        case Kind.STEP | Kind.RELATION:
            return None
