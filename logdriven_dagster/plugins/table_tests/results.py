"""Results of tests."""

from dataclasses import dataclass
from typing import TypeAlias

from logdriven_dagster.errors import ConfigError
from logdriven_dagster.plugins.table_tests.comparison import RowDiff
from logdriven_dagster.plugins.table_tests.files import LoadedTest


@dataclass(frozen=True, slots=True)
class Failure:
    """An expectation that a test did not meet."""

    problem: str
    line: int
    """The line of the expectation in the file."""
    diff: RowDiff | None = None
    notes: tuple[str, ...] = ()


Problem: TypeAlias = Failure | ConfigError


@dataclass(frozen=True, slots=True)
class Outcome:
    """The outcome of a test: passed without problems; a ConfigError is a mistake in the test."""

    test: LoadedTest
    seconds: float
    problems: tuple[Problem, ...] = ()

    @property
    def has_passed(self) -> bool:
        return not self.problems

    @property
    def is_broken(self) -> bool:
        """True if the test has a mistake, so that it proves nothing."""
        return any(isinstance(each, ConfigError) for each in self.problems)
