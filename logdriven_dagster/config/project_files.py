"""What the files of a project say, before anybody has looked at it as a whole."""

from dataclasses import dataclass
from pathlib import Path

from logdriven_dagster.config.models.project import ProjectConfig
from logdriven_dagster.config.yaml.documents import Document
from logdriven_dagster.errors import ConfigError


@dataclass(frozen=True)
class ProjectFiles:
    """What the files of a project say, before it is checked as a whole."""

    root: Path
    main: Document
    config: ProjectConfig
    tables: tuple[Document, ...]
    """One for each table: defaults are merged in, templates expanded, properties replaced."""
    jobs: tuple[Document, ...]
    errors: tuple[ConfigError, ...]
    """Mistakes of files that could not be read."""
    recorded_in: Path
    """Where files of the registry's versions are written that are in the place of others."""


def definitions_folder(root: Path) -> Path:
    """Return the project's own folder for files of the registry's versions that run."""
    return root / ".logdriven" / "definitions"
