"""Fields that had another name before: files with the former name are read, with a hint."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from types import UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic import BaseModel

from logdriven_dagster.config.yaml.documents import Document, Location
from logdriven_dagster.config.yaml.field_locations import list_types
from logdriven_dagster.config.yaml.field_names import current_names, get_alias
from logdriven_dagster.errors import ConfigError


def with_current_names(
    document: Document, model: type[BaseModel]
) -> tuple[Document, list[ConfigError]]:
    """Return a document with the current names of its fields, and a hint for each former name.

    Args:
        document: A parsed file.
        model: The model of the file.

    Raises:
        ConfigError: A field is given by both names.
    """
    renaming = _Renaming(current_names)
    values = renaming.rename(document.values, model, ())
    for place, name in renaming.given_twice:
        problem = f"is the former name of {name}, which is also given"
        raise document.error(place, problem, f"remove {place[-1]}")
    if not renaming.found:
        return document, []
    hints = [
        document.error(place, "was renamed", f"write {name}") for place, name in renaming.found
    ]
    lines = {renaming.move(place): line for place, line in document.lines.items()}
    return replace(document, values=values, lines=lines), hints


def rename_to_current(values: Any, model: type[BaseModel]) -> Any:
    """Return the values of a file with the current names of its fields."""
    return _Renaming(current_names).rename(values, model, ())


def rename_to_former(values: Any, model: type[BaseModel]) -> Any:
    """Return the values of a file with the former names of its fields; None if there are none."""
    renaming = _Renaming(_former_names)
    renamed = renaming.rename(values, model, ())
    return renamed if renaming.found else None


@cache
def _former_names(model: type[BaseModel]) -> Mapping[str, str]:
    return {name: former for former, name in current_names(model).items()}


@dataclass(frozen=True, slots=True)
class _Renaming:
    names: Callable[[type[BaseModel]], Mapping[str, str]]
    """Names to replace in a model, each with its replacement."""
    found: list[tuple[Location, str]] = field(default_factory=list)
    """Replaced names: the location before the replacement, and the new name."""
    given_twice: list[tuple[Location, str]] = field(default_factory=list)
    """Names that were not replaced because the new name is given, too."""

    def rename(self, value: Any, annotation: Any, place: Location) -> Any:
        """Return a value of a type with its fields renamed."""
        if isinstance(annotation, type) and issubclass(annotation, BaseModel):
            return self._rename_fields(value, annotation, place)
        kind, arguments = get_origin(annotation), get_args(annotation)
        if kind is Annotated:
            return self.rename(value, arguments[0], place)
        if kind in (Union, UnionType):
            for each in arguments:
                value = self.rename(value, each, place)
        elif kind is dict and isinstance(value, dict):
            return {
                key: self.rename(part, arguments[1], (*place, key)) for key, part in value.items()
            }
        elif kind is tuple and isinstance(value, list):
            return [self.rename(part, arguments[0], (*place, n)) for n, part in enumerate(value)]
        return value

    def _rename_fields(self, value: Any, model: type[BaseModel], place: Location) -> Any:
        below = _find_fields(model)
        if not below or not isinstance(value, dict) or not _is_of(value, model):
            return value
        names, renamed = self.names(model), {}
        for key, part in value.items():
            here, name = (*place, key), names.get(key, key)
            if name != key and name in value:
                self.given_twice.append((here, name))
                name = key
            elif name != key:
                self.found.append((here, name))
            annotation = below.get(key, below.get(name))
            renamed[name] = part if annotation is None else self.rename(part, annotation, here)
        return renamed

    def move(self, place: Location) -> Location:
        """Return a location after the replacement of names."""
        moved = list(place)
        for before, name in self.found:
            if place[: len(before)] == before:
                moved[len(before) - 1] = name
        return tuple(moved)


def _is_of(value: Mapping[str, Any], model: type[BaseModel]) -> bool:
    """Return True unless the `type` in a value is that of another model."""
    types = list_types(model)
    if "type" in value:
        return not types or value["type"] in types
    return not types or not model.model_fields["type"].is_required()


@cache
def _find_fields(model: type[BaseModel]) -> Mapping[str, Any]:
    """Return key → annotation of the fields that were renamed, or that contain renamed ones."""
    renamed = current_names(model).values()
    return {
        get_alias(model, name): field.annotation
        for name, field in model.model_fields.items()
        if get_alias(model, name) in renamed or _has_renamed_fields(field.annotation)
    }


def _has_renamed_fields(annotation: Any) -> bool:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return bool(_find_fields(annotation))
    if get_origin(annotation) is Literal:
        return False
    return any(_has_renamed_fields(part) for part in get_args(annotation))
