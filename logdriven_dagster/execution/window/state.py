"""The state of a pass, which its steps pass on."""

from collections.abc import Generator, Mapping
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from logdriven_dagster.model.attempts import Attempt
from logdriven_dagster.model.runs import Published, Staged, WindowRun
from logdriven_dagster.model.source_rows import SourceRows


@dataclass(frozen=True, slots=True, kw_only=True)
class PassState:
    """The attempts of a pass and their results so far; each step returns a changed copy."""

    attempts: tuple[Attempt, ...]
    """Attempts at adjoining windows, oldest first; usually a single one."""
    runs: tuple[WindowRun, ...]
    """The attempts as the engine sees them."""
    step: str
    """The current step."""
    staged: Mapping[str, tuple[Staged, ...]] = field(default_factory=dict)
    """Step → its result for each window."""
    published: Mapping[str, tuple[Published, ...]] = field(default_factory=dict)
    checks: Mapping[str, bool] = field(default_factory=dict)
    """Check → True if the staged rows pass it; checks that did not run are missing."""
    notes: str = ""
    """Notes of the source for readers of the log, until a step has them."""
    source_rows: SourceRows | None = None
    """The rows of a sliced source, if some belong to no window; None once a step has them."""
    is_fenced: bool = False
    """True if older attempts are fenced off and their results are taken over."""
    is_visible: bool = False
    """True if readers may see changes: it has begun to publish, or to change a database."""
    durable: frozenset[str] = frozenset()
    """Steps whose results are logged."""
    ended: frozenset[str] = frozenset()
    """Steps whose end is logged already: views and skipped steps."""
    failures: int = 0
    """The number of failed tries."""
    restarts: int = 0
    """The number of changes to another Spark session or engine, which cost no retry."""
    application_id: str | None = None
    """The ID of the engine's application, if it ran."""

    @property
    def is_single(self) -> bool:
        """True if the pass has one window."""
        return len(self.attempts) == 1

    @property
    def can_restart(self) -> bool:
        """True if the only window may begin again: readers have seen no changes of it.

        Several windows run one by one next.
        """
        return self.is_single and not self.is_visible

    def with_staged(self, step: str, results: tuple[Staged, ...]) -> "PassState":
        """Return the state with the results of a step."""
        return replace(self, staged={**self.staged, step: results})

    def without_staged(self) -> "PassState":
        """Return the state without staged results: the next try begins at the first step."""
        return replace(self, staged={}, durable=frozenset())


Changes: TypeAlias = Generator[PassState, None, PassState]
"""Each state of a pass while work goes on, so that the last one is known if it fails; the result
is the final state."""
