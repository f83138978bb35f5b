"""What an operator may change of a table or job without a deploy."""

from collections.abc import Mapping
from datetime import timedelta
from typing import Any, Literal, TypeVar

import yaml
from pydantic import Field, ValidationError

from logdriven_dagster.config.models.fields import DurationField, Model
from logdriven_dagster.config.models.wording import plain_problem
from logdriven_dagster.config.yaml.bounds import read_yaml

ReleaseState = Literal["online", "offline"]
TimeoutStrategy = Literal["warn", "fail", "both"]
RetryVersion = Literal["latest", "recorded"]
"""Which version of its table a window that did not end well is tried again with: the one in force,
or the one that its last attempt recorded. Source: DolphinScheduler, a rerun keeps its versions."""


class Settings(Model):
    """Operational settings; the registry holds the values that are in force.

    Those that a table sets itself win over those of the job that runs it. Sources:
    DolphinScheduler, columns of task and process definitions; Kettle, `is_enabled`, `retries`.
    """

    enabled: bool = Field(True, description="false: it does not run, whoever asks")
    release_state: ReleaseState = Field(
        "online", description="offline: no schedule and no sensor starts it, only people do"
    )
    priority: int = Field(
        0, ge=-100, le=100, description="of what is ready at the same time, greater ones run first"
    )
    worker_group: str | None = Field(
        None,
        description="where it should run: the value of the run tag logdriven/worker_group",
        examples=["large"],
    )
    retries: int = Field(0, ge=0, description="tries after the first, for transient errors")
    retry_interval: DurationField = Field(
        timedelta(0), description="how long to wait before each of them"
    )
    timeout: DurationField | None = Field(None, description="the longest an attempt should take")
    timeout_strategy: TimeoutStrategy = Field(
        "fail", description="what happens then: a warning, or the attempt is stopped and fails"
    )


_Configured = TypeVar("_Configured", bound=Settings)

SETTINGS: frozenset[str] = frozenset(Settings.model_fields)
"""Their names."""

_ABSENT = ("retries", "retry_interval", "timeout", "timeout_strategy")
"""Settings that are NULL in the registry where a file says nothing: the job's apply then."""


def setting_columns(config: Settings) -> dict[str, Any]:
    """The settings as the columns of the registry hold them: seconds, 1 and 0, NULL."""
    return {name: _column(config, name) for name in SETTINGS}


def with_settings(config: _Configured, columns: Mapping[str, Any]) -> _Configured:
    """The table or job with the settings that are in force, as the registry's columns say."""
    own = setting_columns(config)
    changed = {name: columns[name] for name in own if columns[name] != own[name]}
    if not changed:
        return config
    known = config.model_copy(update={n: _value(n, column) for n, column in changed.items()})
    # What is NULL is not set, so that the job's applies.
    known.model_fields_set.difference_update(n for n, column in changed.items() if column is None)
    return known


def parse_setting(name: str, text: str) -> Any:
    """The column of a setting from what people write; ValueError says what can be written."""
    try:
        config = Settings.model_validate({name: read_yaml(text)[1]})
    except yaml.YAMLError:
        raise ValueError(f"{text!r} cannot be read; put a text in quotes") from None
    except ValidationError as error:
        raise ValueError(plain_problem(error)) from None
    return _column(config, name)


def checked_column(name: str, column: Any) -> Any:
    """A column of the registry that comes from elsewhere; ValueError if it cannot be one."""
    if column is None and name in (*_ABSENT, "worker_group"):
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


def shown_setting(name: str, column: Any) -> str:
    """A column of the registry as a file would have it."""
    if column is None:
        return "none"
    if name == "enabled":
        return "yes" if column else "no"
    if name in ("retry_interval", "timeout"):
        return f"{column // 60} min" if column % 60 == 0 else f"{column} s"
    return str(column)


def _column(config: Settings, name: str) -> Any:
    if name in _ABSENT and name not in config.model_fields_set:
        return None
    value = getattr(config, name)
    if isinstance(value, timedelta):
        return round(value.total_seconds())
    return int(value) if isinstance(value, bool) else value


def _value(name: str, column: Any) -> Any:
    if column is None:
        return Settings.model_fields[name].default
    if name in ("retry_interval", "timeout"):
        return timedelta(seconds=column)
    return bool(column) if name == "enabled" else column
