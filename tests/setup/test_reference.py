"""docs/reference.md is what the models say, and every field has a meaning and a valid example."""

from inspect import isabstract

import pytest
from pydantic import BaseModel, ValidationError

from logdriven_dagster.config.models.project import Defaults
from scripts import reference

MODELS = [model for part in reference.SECTIONS.values() for model in part.values()]
FIELDS = [
    pytest.param(model, key, field, schema, id=f"{model.__name__}.{key}")
    for model in MODELS
    for key, field, schema in reference.fields(model)
    if key != "type" and (model is not Defaults or field.description)
]
"""All but those of `defaults` that are fields of a table, too."""


def whole(model: type[BaseModel]) -> type[BaseModel]:
    """A model that can be made: of a base, the first of its types."""
    return next(each for each in MODELS if issubclass(each, model) and not isabstract(each))


def is_block(schema: reference.Schema) -> bool:
    return "](#" in reference.type_words(schema, schema["$defs"])


def mistakes(model: type[BaseModel], key: str, value: object) -> list[str]:
    try:
        model.model_validate({key: value})
    except ValidationError as error:
        return [told["msg"] for told in error.errors() if key in told["loc"][:1]]
    return []


def test_the_page_agrees_with_the_models():
    assert reference.PAGE.read_text() == reference.page(), "run `make reference`"


@pytest.mark.parametrize(("model", "key", "field", "schema"), FIELDS)
def test_every_field_has_a_description(model, key, field, schema):
    assert field.description, f"give {model.__name__}.{key} a description"
    assert not field.description.endswith(".")


@pytest.mark.parametrize(("model", "key", "field", "schema"), FIELDS)
def test_every_field_has_an_example_that_is_valid(model, key, field, schema):
    example = reference.example(field, schema)
    if example is None:
        assert is_block(schema), f"give {model.__name__}.{key} an example"
        return
    assert mistakes(whole(model), key, example) == []
