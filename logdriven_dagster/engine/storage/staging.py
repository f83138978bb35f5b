"""Writing where no reader looks: the values and the protocol that every kind of target shares."""

import os
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol
from zoneinfo import ZoneInfo

from logdriven_dagster.config.models.fields import local_folder
from logdriven_dagster.config.models.tables import MissingColumns
from logdriven_dagster.config.project import Project
from logdriven_dagster.engine.sources.known_sources import KnownSources
from logdriven_dagster.engine.sources.source_rows import Looks
from logdriven_dagster.engine.spark.actions import Action
from logdriven_dagster.engine.spark.metrics import QueryCounts, query_counts
from logdriven_dagster.engine.spark.modes import mode_of
from logdriven_dagster.engine.spark.settings import FEW_ROWS
from logdriven_dagster.engine.targets.iceberg.files import parquet_rows
from logdriven_dagster.errors import AttemptLostError, TerminalStepError
from logdriven_dagster.model.quality import QualityReport
from logdriven_dagster.model.runs import Published
from logdriven_dagster.model.windows import TimeWindow, parse_range_text

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

UPKEEP = 0
"""The job that stages rows which are there already; the run log counts from 1."""

_SMALL_BYTES = 4 * 1024 * 1024


@dataclass(frozen=True)
class Place:
    """Where a store works: the project, and the session whose views its readers need."""

    project: Project
    spark: "SparkSession"
    catalog: Callable[[], Any]
    """The project's Iceberg catalog, opened at first use."""
    sources: KnownSources = field(default_factory=KnownSources)
    """Files that were read before."""
    looks: Looks = field(default_factory=Looks)
    """Which rows of them belong to no window."""

    def missing_columns(self, table: str) -> MissingColumns:
        """What the table says of results that lack a column."""
        return self.project.table(table).missing_columns


@dataclass(frozen=True, slots=True)
class Stamp:
    """Which attempt, step and window a result belongs to."""

    job_id: int
    table: str
    step_id: str
    window: TimeWindow
    fencing_token: int
    """The token of the attempt; targets refuse smaller ones of the same window."""

    def superseded(self, token: int) -> AttemptLostError:
        """What to raise when the target knows a greater token of the window."""
        return AttemptLostError(
            f"job {self.job_id}, {self.table} {self.window}: step {self.step_id} is not published, "
            f"since a newer attempt has the window (token {token} over {self.fencing_token})"
        )

    @property
    def label(self) -> str:
        """What Spark shows beside its jobs."""
        return f"{self.table} {self.window} {self.step_id}"


_UNCOUNTED = "rows of the source are not counted: the query stops early, or Spark does not tell"


@dataclass(frozen=True)
class StagedRows:
    """A result that is written and that nobody reads yet."""

    stamp: Stamp
    location: str
    """The staging folder or table; unique, so that it also identifies the publication."""
    schema: "StructType"
    source_rows: int | None
    rows: int | None
    files: tuple[str, ...] = ()
    """Paths of the files that hold rows."""
    staged_by: int = 0
    """The fencing token of the attempt that staged them; another one may have taken them over."""
    quality: QualityReport | None = None
    """What the rules of the step found; None without rules."""
    rejected: "StagedRows | None" = None
    """The rows that break rules, on their way to a target of their own."""
    most_rows: int | None = None
    """What any part of the query put out at most, if this process saw it; no part of the state."""

    @property
    def were_few(self) -> bool:
        """Whether every part of the query put out less than FEW_ROWS, and that is known."""
        return self.most_rows is not None and self.most_rows < FEW_ROWS

    @property
    def output(self) -> str:
        """What `step_log.output` says of them."""
        unknown = "" if self.source_rows is not None else f"; {_UNCOUNTED}"
        return f"staged {self.rows} rows in {self.location}{unknown}"

    def state(self) -> dict[str, Any]:
        """What another process needs to take them over, as JSON values."""
        return {
            "location": self.location,
            "schema": self.schema.jsonValue(),
            "source_rows": self.source_rows,
            "rows": self.rows,
            "files": list(self.files),
            "staged_by": self.staged_by,
            "quality": self.quality.state() if self.quality else None,
            "rejected": self.rejected.state() if self.rejected else None,
        }

    @classmethod
    def of(cls, stamp: Stamp, state: Mapping[str, Any]) -> "StagedRows":
        """The rows of a `state`, to be published by the attempt of this stamp."""
        from pyspark.sql.types import StructType

        schema = StructType.fromJson(state["schema"])
        known = {name: state[name] for name in ("location", "source_rows", "rows", "staged_by")}
        quality, rejected = state.get("quality"), state.get("rejected")
        return cls(
            stamp,
            schema=schema,
            files=tuple(state["files"]),
            quality=QualityReport.of(quality) if quality else None,
            rejected=cls.of(stamp, rejected) if rejected else None,
            **known,
        )


class Store(Protocol):
    """Where the rows of one target live."""

    def stage(self, frame: "DataFrame", stamp: Stamp) -> StagedRows:
        """Write the frame, which carries what places its rows, where no reader looks."""
        ...

    def staged_frame(self, staged: StagedRows) -> "DataFrame":
        """The staged rows, for later steps and checks."""
        ...

    def holds(self, staged: StagedRows) -> bool:
        """Whether all that was staged is still there, nothing less."""
        ...

    def publish(self, staged: StagedRows, verify: Callable[[], None]) -> Published:
        """Make the staged rows visible, all at once; doing it twice is doing it once.

        `verify` raises AttemptLostError if the run log says that the attempt is not ours any more.
        It is called inside the store's critical section: what happens between it and the switch
        makes the switch fail, or wins over it.
        """
        ...

    def fence(self, stamp: Stamp) -> None:
        """Refuse publications of this window with a smaller token from here on."""
        ...

    def discard(self, staged: StagedRows) -> None:
        """Remove staged rows, unless the target names them.

        An attempt that was taken over may have published them, or a commit whose answer was lost.
        """
        ...

    def read(self, window: TimeWindow | None) -> "DataFrame":
        """The published rows that windows within `window` wrote, or all of them.

        The technical column is still there. TerminalStepError if nothing was ever published.
        """
        ...


def write(frame: "DataFrame", stamp: Stamp, work: Callable[[], None]) -> QueryCounts:
    """Run one writing query, interruptibly, and count its rows."""
    action = Action(frame.sparkSession, f"{stamp.label}: write", work)
    action.run()
    return query_counts(frame.sparkSession, action.mark)


def is_newer(data_range_start: str, window: TimeWindow) -> bool:
    """Whether the window that starts there is newer than this one.

    A target that is replaced as a whole must not go back in time when an older window is refreshed.
    """
    zone = window.start.tzinfo
    assert isinstance(zone, ZoneInfo)
    start = parse_range_text(data_range_start, zone)
    return start.timestamp() > window.start.timestamp()


def in_few_files(frame: "DataFrame") -> "DataFrame":
    """The frame in one task if all that it reads is small, since each task writes a file.

    Thousands of windows would otherwise leave as many files as cores, times thousands.
    """
    size = mode_of(frame.sparkSession).estimated_bytes(frame)
    return frame.coalesce(1) if size < _SMALL_BYTES else frame


def staging_folder(parent: Path, stamp: Stamp) -> Path:
    """A new empty folder for what an attempt's step writes."""
    return new_folder(parent, stamp.job_id, stamp.step_id)


def new_folder(parent: Path, job_id: int, what: str) -> Path:
    """A new empty folder `<job_id>-<what>`.

    A run log that started anew counts its jobs from 1 again, so the name may be taken by published
    rows; then a number makes it unique.
    """
    parent.mkdir(parents=True, exist_ok=True)
    name = f"{job_id}-{what}"
    for number in range(1, 10_000):
        folder = parent / (name if number == 1 else f"{name}.{number}")
        try:
            folder.mkdir()
        except FileExistsError:
            continue
        return folder
    raise TerminalStepError(f"{parent} is full of folders named {name}")


def local_path(text: str, field: str) -> Path:
    """The folder of a target; TerminalStepError for a URL of another file system."""
    try:
        text = local_folder(text)
    except ValueError as error:
        raise TerminalStepError(f"{field}: {error}") from None
    return Path(os.path.normpath(text))


def data_files(folder: Path) -> list[Path]:
    """The files that Spark wrote into a folder."""
    return sorted(path for path in folder.iterdir() if path.is_file() and path.name[0] not in "._")


def is_below(staged: StagedRows, parent: Path) -> bool:
    """Whether what the log says of a staging folder is about one below `parent`, links resolved."""
    folder = Path(staged.location).resolve()
    files = [Path(path.removeprefix("file://")).resolve() for path in staged.files]
    inside = folder != parent.resolve() and folder.is_relative_to(parent.resolve())
    return inside and all(file.is_relative_to(folder) for file in files)


def parquet_is_whole(staged: StagedRows, parent: Path) -> bool:
    """Whether all staged Parquet files lie below `parent`, can be read and have their rows."""
    if not is_below(staged, parent):
        return False
    try:
        counts = [parquet_rows(Path(path.removeprefix("file://"))) for path in staged.files]
    except (OSError, ValueError):
        return False
    return Path(staged.location).is_dir() and sum(counts) == staged.rows


def remove_folder(folder: str | Path) -> None:
    """Delete a folder that nobody needs any more; one that is gone already is fine."""
    shutil.rmtree(folder, ignore_errors=True)


def read_files(
    spark: "SparkSession",
    form: str,
    files: "list[str] | tuple[str, ...]",
    schema: "StructType",
    options: dict[str, str] | None = None,
) -> "DataFrame":
    """A frame over exactly these files; without any, an empty one that costs nothing."""
    if not files:
        return spark.createDataFrame([], schema).limit(0)
    reader = spark.read.format(form).schema(schema).options(**(options or {}))
    # The names are exact: `[1]` in a folder's name is no pattern.
    return reader.option("__globPaths__", "false").load(list(files))
