"""Names of the fields of models in YAML: aliases and former names."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

from pydantic import BaseModel


@dataclass(frozen=True, slots=True)
class Formerly:
    """Annotation of a field of a model with the name that it had before.

    ::

        freshness: Annotated[FreshnessField, Formerly("fresh")] = None
    """

    name: str


def get_alias(model: type[BaseModel], name: str) -> str:
    """Return the name that a field has in files."""
    return model.model_fields[name].alias or name


@cache
def current_names(model: type[BaseModel]) -> Mapping[str, str]:
    """Return the former names of a model's fields, each with the current name."""
    return {
        mark.name: get_alias(model, name)
        for name, field in model.model_fields.items()
        for mark in field.metadata
        if isinstance(mark, Formerly)
    }
