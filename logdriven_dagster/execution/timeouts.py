"""The time that an attempt may take. Source: DolphinScheduler, timeout and its strategy."""

import logging
import time
from dataclasses import dataclass, field

from logdriven_dagster.config.models import TableConfig
from logdriven_dagster.errors import TimeoutStepError

logger = logging.getLogger(__name__)


@dataclass
class Timeout:
    """Watches one attempt at a window of a table; `check` is called again and again."""

    table: TableConfig
    what: str
    started: float = field(default_factory=time.monotonic)
    overdue: bool = False

    def check(self) -> None:
        """Warn once, or raise TimeoutStepError, or both, when the time is up."""
        limit = self.table.timeout
        if self.overdue or limit is None or time.monotonic() - self.started < limit.total_seconds():
            return
        self.overdue = True
        problem = f"{self.what} takes longer than its timeout of {limit}"
        if self.table.timeout_strategy != "fail":
            logger.warning("window_overdue: %s", problem)
        if self.table.timeout_strategy != "warn":
            raise TimeoutStepError(f"{problem}; it was stopped")
