"""Configuration: YAML files, validated as a whole, as frozen models."""

from logdriven_dagster.config.loading import load_examined_project, load_project
from logdriven_dagster.config.project import Project

__all__ = ["Project", "load_examined_project", "load_project"]
