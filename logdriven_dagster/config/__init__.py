"""Configuration: YAML files, validated as a whole, as frozen models."""

from logdriven_dagster.config.loading import examined_project, load_project
from logdriven_dagster.config.project import Project

__all__ = ["Project", "examined_project", "load_project"]
