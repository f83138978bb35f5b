"""Operational settings of a table or job, which an operator can change without a deployment."""

from collections.abc import Mapping
from datetime import timedelta
from typing import Any, Literal, TypeVar

from pydantic import Field

from logdriven_dagster.config.models.fields import DurationField, Model

ReleaseState = Literal["online", "offline"]
TimeoutStrategy = Literal["warn", "fail", "both"]
RetryVersion = Literal["latest", "recorded"]
"""Version of its table that a retry of a window uses.

`latest` is the version in force, `recorded` the one of the last attempt. Source: DolphinScheduler,
a rerun keeps its versions.
"""


class Settings(Model):
    """Operational settings; the registry holds the values in force.

    A table's own settings take precedence over those of the job that runs it. Sources:
    DolphinScheduler, columns of task and process definitions; Kettle, `is_enabled`, `retries`.
    """

    enabled: bool = Field(True, description="false: it never runs")
    release_state: ReleaseState = Field(
        "online",
        description="offline: schedules and sensors do not start it; it is started manually",
    )
    priority: int = Field(
        0, ge=-100, le=100, description="windows with a greater priority run first"
    )
    worker_group: str | None = Field(
        None,
        description="the workers that should run it: the value of the run tag "
        "logdriven/worker_group",
        examples=["large"],
    )
    retries: int = Field(0, ge=0, description="the number of retries after transient errors")
    retry_interval: DurationField = Field(
        timedelta(0), description="the time to wait before each retry"
    )
    timeout: DurationField | None = Field(None, description="the maximum duration of an attempt")
    timeout_strategy: TimeoutStrategy = Field(
        "fail",
        description="the action at the timeout: warn, or stop the attempt as failed (fail), or "
        "both",
    )


_Configured = TypeVar("_Configured", bound=Settings)

SETTINGS: frozenset[str] = frozenset(Settings.model_fields)
"""Names of the operational settings."""

ABSENT = ("retries", "retry_interval", "timeout", "timeout_strategy")
"""Settings that are NULL in the registry if a file does not set them: the job's values apply."""


def build_setting_columns(config: Settings) -> dict[str, Any]:
    """Return the settings as columns of the registry: seconds, 1 or 0, NULL."""
    return {name: get_column(config, name) for name in SETTINGS}


def apply_settings(config: _Configured, columns: Mapping[str, Any]) -> _Configured:
    """Return the table or job with the settings in force, read from the registry's columns."""
    own = build_setting_columns(config)
    changed = {name: columns[name] for name in own if columns[name] != own[name]}
    if not changed:
        return config
    known = config.model_copy(
        update={n: _convert_value(n, column) for n, column in changed.items()}
    )
    # A NULL column counts as unset, so that the job's value applies.
    known.model_fields_set.difference_update(n for n, column in changed.items() if column is None)
    return known


def format_setting(name: str, column: Any) -> str:
    """Format a column of the registry as it would be written in a file."""
    if column is None:
        return "none"
    if name == "enabled":
        return "yes" if column else "no"
    if name in ("retry_interval", "timeout"):
        return f"{column // 60} min" if column % 60 == 0 else f"{column} s"
    return str(column)


def get_column(config: Settings, name: str) -> Any:
    """Return a setting as a column of the registry: seconds, 1 or 0, NULL."""
    if name in ABSENT and name not in config.model_fields_set:
        return None
    value = getattr(config, name)
    if isinstance(value, timedelta):
        return round(value.total_seconds())
    return int(value) if isinstance(value, bool) else value


def _convert_value(name: str, column: Any) -> Any:
    if column is None:
        return Settings.model_fields[name].default
    if name in ("retry_interval", "timeout"):
        return timedelta(seconds=column)
    return bool(column) if name == "enabled" else column
