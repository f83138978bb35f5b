"""What differs between a classic Spark session and one of Spark Connect, behind one interface.

A classic session has its JVM beside this process; a Connect session only speaks to a server, so
there is no `sparkContext`, no `_jvm`, no static configuration. Everything else in the engine takes
either, and asks `mode_of` for the few things that need to know.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from threading import Thread
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, Observation, SparkSession

    from logdriven_dagster.config.project import Project
    from logdriven_dagster.engine.spark.query_plans import QueryPlan

BY_PROCESS = "pyspark.sql.functions"
"""Makes columns of the one kind that PySpark has chosen for a process."""

_CONNECT = "pyspark.sql.connect."

ROWS, WINDOWS = "rows", "windows"
"""Under what `CountedReads.found` tells rows: of all windows together, or of each."""


@dataclass(frozen=True, slots=True)
class Mark:
    """What names one piece of work to Spark, to cancel it by and to find its numbers by."""

    label: str
    """What people read."""
    tag: str
    """Unique."""
    pool: str | None = None
    """The scheduler pool that its jobs belong to."""

    @property
    def description(self) -> str:
        """What a classic session shows beside the jobs; as unique as the tag."""
        return f"{self.label} {self.tag[-8:]}"


class CountedReads(Protocol):
    """What counts the rows that queries read, where no plan of them tells it."""

    def see(
        self,
        frame: "DataFrame",
        metric: "Callable[[DataFrame], Column]",
        index: "Callable[[DataFrame], Column] | None",
    ) -> "DataFrame":
        """Return the frame, counted by whatever query reads it.

        `metric` is an aggregate that says what to count, for engines that compute it on the way;
        `index` tells the window of each row in a pass of several, None: all windows share them.
        """
        ...

    def narrowed(
        self, sql: str, values: Mapping[str, Any], frames: "Mapping[str, DataFrame]"
    ) -> "tuple[str, Mapping[str, DataFrame]]":
        """Return a query, and what it may read, so that its own filters come before the counts."""
        ...

    def found(
        self, frame: "DataFrame", written: Sequence[int | None]
    ) -> list[Mapping[str, Any]] | None:
        """What was counted of each source of a frame that has been written; None if not of all.

        `written` are the rows of each window. It is what the metric has found, or under ROWS a
        number for all windows, or under WINDOWS one for each of them.
        """
        ...


class SparkMode(Protocol):
    """One way to reach Spark. Sessions are given with each call: a mode holds no state of them."""

    lists_files: bool
    """Whether a frame over files lists them when it is made, and not when it is asked something."""
    divides_by_texts: bool
    """Whether rows are written into a folder for each text of a column, and not only number."""
    tells_files: bool
    """Whether a row of a file tells which one it is of."""
    converts_files: bool
    """Whether values of files become others of the columns' types without loss, or fail."""
    takes_lists: bool
    """Whether a folder is read by the log of a streaming query in it; see `storage.file_lists`."""
    functions: str
    """The module of PySpark whose functions make columns for it."""

    def adopt(self, spark: "SparkSession", project: "Project") -> None:
        """Make a session fit for a project's work; UsageError where it cannot be."""
        ...

    def application_id(self, spark: "SparkSession") -> str:
        """Spark's name for the application behind the session."""
        ...

    def new_session(self, spark: "SparkSession") -> "SparkSession":
        """Return a session over the same application, with views and settings of its own."""
        ...

    def clone(self, spark: "SparkSession", settings: Mapping[str, str]) -> "SparkSession | None":
        """Return a session with these settings that shares the code which Spark compiles.

        It is for work that adds no code of its own. None where sessions share it anyway, or cannot.
        """
        ...

    def configure(self, session: "SparkSession", settings: Mapping[str, str]) -> None:
        """Set what can be set on a running session; static settings stay as they are."""
        ...

    def release(self, session: "SparkSession") -> None:
        """End a session of `new_session`, not the application."""
        ...

    def thread(self, spark: "SparkSession", work: "Callable[[], None]") -> Thread:
        """Return a thread for work in the session, not started yet."""
        ...

    def mark(self, spark: "SparkSession", mark: Mark) -> None:
        """Put the mark on all work that this thread starts in the session from now on."""
        ...

    def cancel(self, spark: "SparkSession", mark: Mark) -> None:
        """Stop the work that runs under a mark."""
        ...

    def query_plan(self, spark: "SparkSession", mark: Mark) -> "QueryPlan | None":
        """The latest finished query under a mark with its row counts; None if nobody knows."""
        ...

    def counted_reads(self, spark: "SparkSession") -> "CountedReads | None":
        """What counts the rows that queries read where no plan tells it; None where one does."""
        ...

    def again(self, known: "DataFrame", spark: "SparkSession") -> "DataFrame | None":
        """A frame over the files that another session has found; None where that cannot be had."""
        ...

    def input_files(self, frame: "DataFrame") -> list[str]:
        """Return the locations of the files that the frame reads."""
        ...

    def name_frame(self, frame: "DataFrame", name: str) -> None:
        """Let queries of the frame's session read it by this name."""
        ...

    def query(
        self,
        spark: "SparkSession",
        sql: str,
        values: Mapping[str, Any],
        frames: "Mapping[str, DataFrame]",
    ) -> "DataFrame":
        """Return the result of a query; `frames` are the views that it may name."""
        ...

    def observed(self, observation: "Observation") -> Mapping[str, Any]:
        """What an `observe` found; nothing if no query has come by it, and nobody waits for one."""
        ...

    def estimated_bytes(self, frame: "DataFrame") -> int:
        """How much the frame's result is, as far as Spark can tell before it runs."""
        ...

    def imports_here(self, spark: "SparkSession") -> bool:
        """Whether Spark's Python workers import the modules that this process can import."""
        ...

    def has_java_class(self, spark: "SparkSession", file: str) -> bool:
        """Whether `org/…/Name.class` is known to be on Spark's class path."""
        ...


def is_connect(thing: object) -> bool:
    """Whether a session, frame or error is one of Spark Connect."""
    return type(thing).__module__.startswith((_CONNECT, "pyspark.errors.exceptions.connect"))


def is_one_jvm(master: str) -> bool:
    """Whether a master is no cluster: the driver does all the work."""
    return re.fullmatch(r"local(\[.*\])?", master) is not None
