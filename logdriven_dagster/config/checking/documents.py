"""Validation of single YAML documents."""

from typing import Any, TypeVar
from zoneinfo import ZoneInfo

from pydantic import BaseModel, ValidationError

from logdriven_dagster.config.models.tables import TableConfig
from logdriven_dagster.config.models.wording import convert_validation_errors, find_ambiguities
from logdriven_dagster.config.yaml.documents import Document
from logdriven_dagster.errors import ConfigError, InvalidProjectError

_Model = TypeVar("_Model", bound=BaseModel)


def validate_document(
    document: Document, model: type[_Model], errors: list[ConfigError], **context: Any
) -> _Model | None:
    """Validate a document against a model; add the mistakes to `errors`, and return None then."""
    try:
        config = model.model_validate(document.values, context=context)
    except ValidationError as error:
        errors += convert_validation_errors(document, model, error)
        return None
    unclear = list(find_ambiguities(document, config))
    errors += unclear
    return None if unclear else config


def validate_table(document: Document, zone: ZoneInfo) -> TableConfig:
    """Validate a single table document with defaults merged in. Raises InvalidProjectError."""
    errors: list[ConfigError] = []
    table = validate_document(document, TableConfig, errors, zone=zone)
    if table is None:
        raise InvalidProjectError(errors)
    return table
