"""The time that an attempt or a run of a job may take. Source: DolphinScheduler, timeout."""

import logging
import time
from dataclasses import dataclass, field

from logdriven_dagster.config.models.settings import Settings
from logdriven_dagster.errors import TimeoutStepError

logger = logging.getLogger(__name__)


@dataclass
class Timeout:
    """Watches one attempt at a window, or one run of a job; `check` is called again and again."""

    settings: Settings
    """The settings of the table or the job."""
    what: str
    started: float = field(default_factory=time.monotonic)
    overdue: bool = False

    def check(self) -> None:
        """Warn once, or raise TimeoutStepError, or both, when the time is up."""
        limit = self.settings.timeout
        if self.overdue or limit is None or time.monotonic() - self.started < limit.total_seconds():
            return
        self.overdue = True
        problem = self.problem
        if self.settings.timeout_strategy != "fail":
            logger.warning("overdue: %s", problem)
        if self.settings.timeout_strategy != "warn":
            raise TimeoutStepError(f"{problem}; it was stopped")

    @property
    def is_over(self) -> bool:
        """Whether the time is up and that is a failure."""
        return self.overdue and self.settings.timeout_strategy != "warn"

    @property
    def problem(self) -> str:
        return f"{self.what} takes longer than its timeout of {self.settings.timeout}"
