"""Mapping of the locations that pydantic reports to lines of a file."""

from typing import Any, Literal, get_args, get_origin

from pydantic import BaseModel
from pydantic_core import ErrorDetails

from logdriven_dagster.config.yaml.documents import Location
from logdriven_dagster.config.yaml.field_names import get_alias


def get_value(config: Any, location: Location) -> Any:
    """Return a model's value at a location, or None if the model has converted it."""
    value = config
    for part in location:
        if isinstance(value, BaseModel):
            names = {get_alias(type(value), name): name for name in type(value).model_fields}
            value = getattr(value, names.get(str(part), str(part)), None)
        elif isinstance(value, (dict, tuple, list)):
            known = part in value if isinstance(value, dict) else isinstance(part, int)
            value = value[part] if known else None  # type: ignore[index]
    return value


def place_of(
    model: type[BaseModel], values: Any, details: ErrorDetails
) -> tuple[Location, list[type[BaseModel]]]:
    """Return the location in the file of a pydantic error, and the models that are valid there.

    Pydantic includes the chosen members of unions in its location; the file does not.
    """
    location: list[str | int] = []
    models: list[type[BaseModel]] = [model]
    loc = details["loc"]
    for n, part in enumerate(loc):
        tagged = [m for m in models if part in (*list_types(m), m.__name__)]
        if tagged and not any(part in m.model_fields for m in models):
            models = tagged
            continue
        is_missing = n == len(loc) - 1 and details["type"] == "missing"
        if not (_has_part(values, part) or is_missing):
            continue
        location.append(part)
        values = values[part] if _has_part(values, part) else None
        is_unknown = n == len(loc) - 1 and details["type"] == "extra_forbidden"
        if isinstance(part, str) and not is_unknown:
            models = _find_models_at(models, part)
    return tuple(location), models


def _has_part(values: Any, part: str | int) -> bool:
    if isinstance(values, dict):
        return part in values
    return isinstance(values, list) and isinstance(part, int) and part < len(values)


def _find_models_at(models: list[type[BaseModel]], name: str) -> list[type[BaseModel]]:
    """Return the models below a field; of a mapping, those of its values."""
    fields = [
        field
        for model in models
        for key, field in model.model_fields.items()
        if name in (key, field.alias)
    ]
    return [m for field in fields for m in _find_models_in(field.annotation)] or models


def list_types(model: type[BaseModel]) -> tuple[Any, ...]:
    """Return the possible values of `type`, for a model that is chosen by it."""
    field = model.model_fields.get("type")
    return get_args(field.annotation) if field and get_origin(field.annotation) is Literal else ()


def _find_models_in(annotation: Any) -> list[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    if annotation is None or get_origin(annotation) is Literal:
        return []
    return [model for part in get_args(annotation) for model in _find_models_in(part)]
