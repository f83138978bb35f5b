"""Parsed files of a project, before validation of the project as a whole."""

from dataclasses import dataclass
from pathlib import Path

from logdriven_dagster.config.models.project import ProjectConfig
from logdriven_dagster.config.yaml.documents import Document
from logdriven_dagster.errors import ConfigError


@dataclass(frozen=True)
class ProjectFiles:
    """Parsed files of a project, before validation of the project as a whole."""

    root: Path
    main: Document
    config: ProjectConfig
    tables: tuple[Document, ...]
    """One per table: with defaults merged in, templates expanded and properties replaced."""
    jobs: tuple[Document, ...]
    errors: tuple[ConfigError, ...]
    """Errors of files that could not be parsed."""
    recorded_in: Path
    """Folder for files of registered versions that are used instead of current files."""
    renamed_fields: tuple[ConfigError, ...] = ()
    """Hints about former names of fields in the files."""


def get_definitions_folder(root: Path) -> Path:
    """Return the project's folder for the files of registered versions."""
    return root / ".logdriven" / "definitions"
