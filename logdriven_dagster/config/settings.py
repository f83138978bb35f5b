"""What an operator may change of a table or job without a deploy."""

from datetime import timedelta
from typing import Literal

from pydantic import Field

from logdriven_dagster.config.fields import DurationField, Model

ReleaseState = Literal["online", "offline"]
TimeoutStrategy = Literal["warn", "fail", "both"]


class Settings(Model):
    """Operational settings; the registry holds the values that are in force.

    Those that a table sets itself win over those of the job that runs it. Sources:
    DolphinScheduler, columns of task and process definitions; Kettle, `is_enabled`, `retries`.
    """

    enabled: bool = Field(True, description="false: nobody runs it")
    release_state: ReleaseState = Field(
        "online", description="offline: no schedule and no sensor starts it, only people do"
    )
    priority: int = Field(
        0, ge=-100, le=100, description="of what is ready at the same time, greater ones run first"
    )
    worker_group: str | None = Field(
        None, description="where it should run: the run tag logdriven/worker_group"
    )
    retries: int = Field(0, ge=0, description="tries after the first, for transient errors")
    retry_interval: DurationField = timedelta(0)
    timeout: DurationField | None = Field(None, description="the longest an attempt should take")
    timeout_strategy: TimeoutStrategy = Field(
        "fail", description="what happens then: a warning, or the attempt is stopped and fails"
    )


SETTINGS: frozenset[str] = frozenset(Settings.model_fields)
"""Their names."""
