"""Validation of single values of settings: entered by users, or stored in another registry."""

from typing import Any

import yaml
from pydantic import ValidationError

from logdriven_dagster.config.models.settings import ABSENT, Settings, get_column
from logdriven_dagster.config.models.wording import describe_problem
from logdriven_dagster.config.yaml.bounds import read_yaml


def parse_setting(name: str, text: str) -> Any:
    """Parse user input for a setting and return the registry's column value.

    Raises ValueError, with the accepted forms, for invalid text.
    """
    try:
        config = Settings.model_validate({name: read_yaml(text)[1]})
    except yaml.YAMLError:
        raise ValueError(f"{text!r} is not valid YAML; put text in quotes") from None
    except ValidationError as error:
        raise ValueError(describe_problem(error)) from None
    return get_column(config, name)


def validate_column(name: str, column: Any) -> Any:
    """Return a column value from another registry. Raises ValueError if it is invalid."""
    if column is None and name in (*ABSENT, "worker_group"):
        return None
    try:
        if name in ("retry_interval", "timeout"):
            parsed = parse_setting(name, f"{int(column)} s")
        else:
            parsed = parse_setting(name, str(bool(column) if name == "enabled" else column))
    except (TypeError, ValueError) as error:
        raise ValueError(f"{name}: {error}") from None
    if parsed != column:
        raise ValueError(f"{name}: {column!r} is not allowed")
    return parsed
