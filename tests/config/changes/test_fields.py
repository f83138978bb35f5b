"""Every field of a table has a class: the effect of a change on published rows."""

import typing
from collections.abc import Iterator

import pytest
from pydantic import BaseModel

from logdriven_dagster.config.changes.fields import (
    BOUNDS,
    Effect,
    find_effect,
    list_project_fields,
)
from logdriven_dagster.config.models.project import ProjectConfig
from logdriven_dagster.config.models.tables import TableConfig
from logdriven_dagster.config.models.types.registered import SOURCES, TARGETS

_WITHOUT_EFFECT = {"NotifyRule", "FreshnessConfig", "OnChange", "RestateRange"}
"""Models of fields that are cosmetic as a whole."""


def walk(annotation: object, found: dict[type[BaseModel], None]) -> None:
    is_model = isinstance(annotation, type) and issubclass(annotation, BaseModel)
    if is_model and annotation not in found:
        found[annotation] = None
        for field in annotation.model_fields.values():
            walk(field.annotation, found)
    for part in typing.get_args(annotation):
        walk(part, found)


def fields() -> Iterator[tuple[type[BaseModel], str]]:
    found: dict[type[BaseModel], None] = {}
    for model in (TableConfig, *SOURCES, *TARGETS):
        walk(model, found)
    ours = [model for model in found if ".plugins." not in model.__module__]
    for model in ours:
        if model.__module__.startswith("logdriven_dagster") and (
            model.__name__ not in _WITHOUT_EFFECT
        ):
            yield from ((model, name) for name in model.model_fields)


@pytest.mark.parametrize(
    ("model", "field"), list(fields()), ids=lambda part: getattr(part, "__name__", part)
)
def test_every_field_of_a_definition_is_classified(model: type[BaseModel], field: str):
    assert find_effect(model, field) is not None, (
        f"{model.__name__}.{field}: add it to config/changes/fields.py, with the effect "
        "that a change of it has on published rows"
    )


def test_fields_that_only_bound_windows_are_of_the_grid():
    assert {find_effect(TableConfig, name) for name in BOUNDS} == {Effect.GRID}


def test_every_field_of_the_project_file_is_classified():
    assert list_project_fields() == ProjectConfig.model_fields.keys()
