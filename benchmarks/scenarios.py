"""The scenarios: who does what, on which data, and after what."""

from collections.abc import Callable
from dataclasses import dataclass, replace

from benchmarks.data import Shape
from benchmarks.settings import Scale

_OURS = ("dagster", "dagster-batched", "logdriven", "logdriven-batched")
_OTHERS = ("sqlmesh-batch-1", "sqlmesh", "dbt")
_PLAIN = ("plain-loop", "plain-pass")
_PLAIN_ICEBERG = ("plain-iceberg-loop", "plain-iceberg-pass")
_ICEBERG = (
    *_PLAIN_ICEBERG,
    "dlt-loop",
    "dlt",
    "dagster-iceberg",
    "dagster-iceberg-batched",
    "logdriven-iceberg",
    "logdriven-iceberg-batched",
)
_FILES = ("plain-loop", "logdriven", "logdriven-iceberg", "logdriven-sail-iceberg")
_DATABASES = ("plain-loop", "logdriven-jdbc", "logdriven-jdbc-batched")
_BY_DAY_OURS = ("logdriven-defaults", "logdriven", "logdriven-archive", "logdriven-warm")
_BY_DAY = (*_PLAIN, "sqlmesh-batch-1", "sqlmesh", "dbt", "dlt", *_BY_DAY_OURS)
_ONE_PROCESS = ("logdriven", "logdriven-warm")
_ONE_CORE_EACH = ("logdriven-one-core", "logdriven-one-worker", "logdriven-standalone")
_TWO_WORKERS = ("logdriven-standalone", "logdriven-standalone-warm")


@dataclass(frozen=True, slots=True)
class Stage:
    """One timed process of each contestant, on the state that the stage before left."""

    scenario: str
    begin: Callable[[Shape], int]
    end: Callable[[Shape], int]
    contestants: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Course:
    """Stages that follow each other on one state, which is new in each round."""

    shape: Callable[[Scale], Shape]
    transform: str
    stages: tuple[Stage, ...]
    target: str = "files"


def _zero(_shape: Shape) -> int:
    return 0


def _days(shape: Shape) -> int:
    return shape.days


def _one_more(shape: Shape) -> int:
    return shape.days + 1


_CATCHING_UP = (
    *_PLAIN,
    *_OTHERS,
    *_OURS,
    "logdriven-warm",
    "logdriven-parallel",
    "logdriven-sail",
)
_ON_SAIL = ("logdriven-sail", "logdriven-sail-batched")
_ALIKE = tuple(f"{name}-alike" for name in (*_PLAIN, *_OTHERS))
_KNOWING = tuple(
    name for name in (*_CATCHING_UP, *_ICEBERG) if name not in (*_PLAIN, *_PLAIN_ICEBERG)
)

COURSES = (
    Course(
        lambda scale: scale.month,
        "map",
        (
            Stage("A", _zero, _days, (*_CATCHING_UP, "logdriven-sail-batched", *_ALIKE, *_ICEBERG)),
            Stage("D", _days, _one_more, (*_CATCHING_UP, *_ICEBERG)),
            Stage("E", _one_more, _one_more, _KNOWING),
        ),
    ),
    Course(lambda scale: scale.month, "aggregate", (Stage("B", _zero, _days, _CATCHING_UP),)),
    Course(
        lambda scale: scale.year,
        "map",
        (Stage("C files", _zero, _days, (*_PLAIN, *_OTHERS, *_OURS, *_ON_SAIL)),),
    ),
    Course(lambda scale: scale.year, "map", (Stage("C Iceberg", _zero, _days, _ICEBERG),)),
    Course(
        lambda scale: scale.small,
        "map",
        (Stage("F files", _zero, _days, _FILES),),
    ),
    Course(
        lambda scale: scale.small,
        "map",
        (Stage("F PostgreSQL", _zero, _days, _DATABASES),),
        "jdbc",
    ),
    Course(
        lambda scale: scale.month,
        "map",
        (Stage("I", _zero, _days, _ONE_PROCESS + _TWO_WORKERS),),
    ),
    Course(
        lambda scale: replace(scale.month, by_day=True),
        "map",
        (Stage("U", _zero, _days, _BY_DAY), Stage("V", _days, _one_more, _BY_DAY)),
    ),
    Course(
        lambda scale: replace(scale.month, by_day=True),
        "map",
        (
            Stage("W load", _zero, _days, ("logdriven-restated",)),
            Stage("W restate", _zero, _days, ("logdriven-restated",)),
        ),
    ),
    Course(
        lambda scale: scale.large,
        "digest",
        (Stage("T", _zero, _days, _ONE_CORE_EACH),),
    ),
)

TITLES = {
    "A": "Catch-up of {days} daily windows over {rows:,} rows, one row to one row",
    "B": "Catch-up of {days} daily windows over {rows:,} rows, aggregated",
    "C files": "Catch-up of {days} daily windows over {rows:,} rows, Parquet files",
    "C Iceberg": "Catch-up of {days} daily windows over {rows:,} rows, Iceberg",
    "D": "One more day",
    "E": "Nothing to do",
    "F files": "Targets of files: {days} windows over {rows:,} rows",
    "F PostgreSQL": "Target PostgreSQL: {days} windows over {rows:,} rows",
    "I": "A standalone cluster of two workers with a core each, {days} windows, {rows:,} rows",
    "U": "Folders by day, as Spark writes them: catch-up of {days} windows over {rows:,} rows",
    "V": "Folders by day, as Spark writes them: one more day",
    "W load": "Windows that a changed query runs again: {days} windows, {rows:,} rows, first load",
    "W restate": "Windows that a changed query runs again: the same windows restated",
    "T": "Workers with a core each against one core: {days} windows of digests of {rows:,} rows",
}
