"""What a contestant is asked to do, and what it says about itself."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from benchmarks.queries import TRANSFORMS


class UnavailableError(Exception):
    """A contestant cannot take part; the message says exactly why."""


@dataclass(frozen=True, slots=True)
class Task:
    """Bring a table from `begin` days to `end` days, counted from the first; both may be equal."""

    transform: str
    source: Path
    """A folder of Parquet files."""
    state: Path
    """The contestant's own folder; what it leaves there is there in the next task."""
    begin: int
    end: int
    target: str = "files"
    by_day: bool = False
    """Whether the files lie in folders `ds=2024-01-31`."""
    database: str | None = None
    """The SQLAlchemy URL of a PostgreSQL server of the suite's own."""

    def query(self, source: str, condition: str) -> str:
        """The transform over a table expression."""
        return TRANSFORMS[self.transform].format(source=source, filter=condition)


@dataclass(frozen=True, slots=True)
class Command:
    """A process to time."""

    arguments: tuple[str, ...]
    variables: Mapping[str, str]
    folder: Path


@dataclass(frozen=True, slots=True)
class Written:
    """Where the result lies: Parquet files, or a table of PostgreSQL."""

    files: tuple[Path, ...] = ()
    hive: bool = False
    """Whether the day stands in the path and not in the file."""
    table: str | None = None


def nothing(_task: Task) -> None:
    """What most contestants do around a timed process."""


def no_log(_task: Task) -> list[float]:
    """What most contestants know of their windows afterwards."""
    return []


@dataclass(frozen=True, slots=True)
class Contestant:
    """One way to keep a table up to date."""

    label: str
    prepare: Callable[[Task], None]
    """Make the project in an empty state folder; UnavailableError says why it cannot."""
    command: Callable[[Task], Command]
    written: Callable[[Task], Written]
    before: Callable[[Task], None] = nothing
    """Not timed, before each process."""
    after: Callable[[Task], None] = nothing
    windows: Callable[[Task], list[float]] = no_log
    """Seconds of each window that the last process ran, in their order, by its own log."""
    knows_when_done: bool = True
    """Whether it can tell that there is nothing to do; the others do not run that scenario."""
    note: str = ""
