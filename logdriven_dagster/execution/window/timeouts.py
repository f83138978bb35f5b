"""Time limits of attempts and job runs, and the pauses between their tries.

Source: DolphinScheduler, timeout.
"""

import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from logdriven_dagster.config.models.settings import Settings
from logdriven_dagster.config.models.tables import TableConfig
from logdriven_dagster.errors import TimeoutStepError
from logdriven_dagster.model.windows import TimeWindow

logger = logging.getLogger(__name__)

_CHECK_SECONDS = 0.2
"""The time between two checks of a pause."""


@dataclass
class Timeout:
    """The time limit of a pass or of a job run; call `check` repeatedly."""

    settings: Settings
    """The settings of the table or the job."""
    what: str
    started: float = field(default_factory=time.monotonic)
    overdue: bool = False

    @classmethod
    def of_pass(cls, table: TableConfig, windows: Sequence[TimeWindow]) -> "Timeout":
        """Return the time limit of a pass: the sum of those of its windows."""
        if len(windows) == 1:
            return cls(table, f"{table.table} {windows[0]}")
        limit = table.timeout
        given = None if limit is None else limit * len(windows)
        settings = table.model_copy(update={"timeout": given})
        return cls(settings, f"{table.table} from {windows[0]} on")

    def check(self) -> None:
        """Warn once, raise TimeoutStepError, or both, when the time is up."""
        limit = self.settings.timeout
        if self.overdue or limit is None or time.monotonic() - self.started < limit.total_seconds():
            return
        self.overdue = True
        problem = self.problem
        if self.settings.timeout_strategy != "fail":
            logger.warning("overdue: %s", problem)
        if self.settings.timeout_strategy != "warn":
            raise TimeoutStepError(f"{problem}; the attempt was stopped")

    @property
    def is_over(self) -> bool:
        """True if the time is up and the settings make that a failure."""
        return self.overdue and self.settings.timeout_strategy != "warn"

    @property
    def problem(self) -> str:
        return f"{self.what} exceeds its timeout of {self.settings.timeout}"


def pause(seconds: float, check: Callable[[], None]) -> None:
    """Wait before a retry; `check`, which is called repeatedly, raises if waiting is useless."""
    end = time.monotonic() + seconds
    while (left := end - time.monotonic()) > 0:
        check()
        time.sleep(min(left, _CHECK_SECONDS))
