"""Common interface to classic Spark sessions and those of Spark Connect.

A classic session has its JVM next to this process; a Connect session is a client of a server, so
there is no `sparkContext`, no `_jvm`, no static configuration. All other engine modules accept
either and call `mode_of` for the few operations that differ.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from threading import Thread
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, Observation, SparkSession
    from pyspark.sql.types import StructType

    from logdriven_dagster.config.project import Project
    from logdriven_dagster.engine.spark.query_plans import QueryPlan

BY_PROCESS = "pyspark.sql.functions"
"""The module whose functions make columns of the one kind that PySpark chose for the process."""

_CONNECT = "pyspark.sql.connect."

ROWS, WINDOWS = "rows", "windows"
"""Keys of `CountedReads.read_counts`: rows of all windows, or a list with the rows of each."""


@dataclass(frozen=True, slots=True)
class Mark:
    """Identification of one piece of work in Spark, used to cancel it and to find its metrics."""

    label: str
    """Text for people to read."""
    tag: str
    """Unique id."""
    pool: str | None = None
    """The scheduler pool of its jobs."""

    @property
    def description(self) -> str:
        """Description that a classic session shows with the jobs; as unique as the tag."""
        return f"{self.label} {self.tag[-8:]}"


class CountedReads(Protocol):
    """Counter of the rows that queries read, for servers that do not report query plans."""

    def see(
        self,
        frame: "DataFrame",
        metric: "Callable[[DataFrame], Column]",
        index: "Callable[[DataFrame], Column] | None",
    ) -> "DataFrame":
        """Return the frame with a counter, which counts the rows that any query reads from it.

        `metric` is an aggregate that counts the rows, for engines that compute it during the read.
        `index` returns the window of each row in a pass of several windows; None if all windows
        share the rows.
        """
        ...

    def push_filters(
        self, sql: str, values: Mapping[str, Any], frames: "Mapping[str, DataFrame]"
    ) -> "tuple[str, Mapping[str, DataFrame]]":
        """Return the query and its frames, changed so that its filters apply before the counts.

        `values` are the query's parameters, `frames` the views that it may name.
        """
        ...

    def read_counts(
        self, frame: "DataFrame", written: Sequence[int | None]
    ) -> list[Mapping[str, Any]] | None:
        """Return the counts of each source of a written frame; None if any is missing.

        `written` are the rows written per window. A result has the values of the metric, or a
        number for all windows under ROWS, or a list with one number per window under WINDOWS.
        """
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class BackendCapabilities:
    """The capabilities of a backend, which runs the queries of a session; by default Spark's."""

    lists_files_eagerly: bool = True
    """True if a frame over files lists them when it is created, and not when it is first used."""
    can_partition_by_string: bool = True
    """True if a write can partition rows into folders by a string column, not only by a number."""
    has_input_file_name: bool = True
    """True if `_metadata.file_path` is available: the file of each row."""
    casts_on_read: bool = True
    """True if file values are converted to the columns' types without loss, or fail."""
    reads_file_sink_log: bool = True
    """True if a folder is read through a streaming query's log in it; see `storage.file_lists`."""


class SparkMode(Protocol):
    """One way to reach Spark. Modes are stateless: each call takes the session."""

    title: str
    """The name of the backend in messages."""
    capabilities: BackendCapabilities
    functions: str
    """The PySpark module whose functions make columns for this mode."""

    def parse_columns(self, ddl: str) -> "StructType":
        """Return the columns of a DDL text.

        Raises TerminalStepError for a type that the backend does not support.
        """
        ...

    def adopt(self, spark: "SparkSession", project: "Project") -> None:
        """Prepare a session for a project's work; raise UsageError if it cannot be used."""
        ...

    def application_id(self, spark: "SparkSession") -> str:
        """Return Spark's id of the application behind the session."""
        ...

    def new_session(self, spark: "SparkSession") -> "SparkSession":
        """Return a session over the same application, with its own views and settings."""
        ...

    def clone(self, spark: "SparkSession", settings: Mapping[str, str]) -> "SparkSession | None":
        """Return a session with these settings that shares Spark's compiled code with others.

        It is for work that adds no code of its own. Returns None if sessions share compiled code
        anyway, or cannot.
        """
        ...

    def configure(self, session: "SparkSession", settings: Mapping[str, str]) -> None:
        """Apply settings that a running session accepts; static settings keep their values."""
        ...

    def release(self, session: "SparkSession") -> None:
        """End a session of `new_session`, but not the application."""
        ...

    def thread(self, spark: "SparkSession", work: "Callable[[], None]") -> Thread:
        """Return a thread, not yet started, for work in the session."""
        ...

    def mark(self, spark: "SparkSession", mark: Mark) -> None:
        """Mark all work that this thread starts in the session from now on."""
        ...

    def cancel(self, spark: "SparkSession", mark: Mark) -> None:
        """Cancel the work that runs under a mark."""
        ...

    def query_plan(self, spark: "SparkSession", mark: Mark) -> "QueryPlan | None":
        """Return the plan of the latest finished query under a mark; None if not available."""
        ...

    def create_read_counter(self, spark: "SparkSession") -> "CountedReads | None":
        """Return a counter of the rows that queries read; None if query plans have the counts."""
        ...

    def again(self, known: "DataFrame", spark: "SparkSession") -> "DataFrame | None":
        """Return a frame over the files that another session has listed; None if not supported."""
        ...

    def input_files(self, frame: "DataFrame") -> list[str]:
        """Return the locations of the files that the frame reads."""
        ...

    def name_frame(self, frame: "DataFrame", name: str) -> None:
        """Register the frame as a view of this name for queries of its session."""
        ...

    def query(
        self,
        spark: "SparkSession",
        sql: str,
        values: Mapping[str, Any],
        frames: "Mapping[str, DataFrame]",
    ) -> "DataFrame":
        """Return the result of a query; `frames` are the views that it may name.

        `values` are the query's parameters.
        """
        ...

    def read_observation(self, observation: "Observation") -> Mapping[str, Any]:
        """Return the values of an `observe`, without waiting; empty if no query has computed it."""
        ...

    def estimate_bytes(self, frame: "DataFrame") -> int:
        """Return Spark's estimate of the frame's size, made before it runs."""
        ...

    def find_attributes(self, frame: "DataFrame") -> frozenset[int]:
        """Return Spark's ids of the columns of the sources of a frame; empty if unknown."""
        ...

    def imports_here(self, spark: "SparkSession") -> bool:
        """Return whether Spark's Python workers import the modules that this process can import."""
        ...

    def has_java_class(self, spark: "SparkSession", file: str) -> bool:
        """Return whether `org/…/Name.class` is known to be on Spark's class path."""
        ...


@lru_cache
def columns_of_ddl(ddl: str) -> "StructType":
    """Parse a DDL text into a Spark schema, in PySpark's session of the process."""
    from pyspark.sql.types import StructType

    columns: Any = StructType.fromDDL(ddl)
    return columns  # type: ignore[no-any-return]


def is_connect(thing: object) -> bool:
    """Return whether a session, frame or error belongs to Spark Connect."""
    return type(thing).__module__.startswith((_CONNECT, "pyspark.errors.exceptions.connect"))


def is_one_jvm(master: str) -> bool:
    """Return whether a master URL is local, so that the driver does all the work."""
    return re.fullmatch(r"local(\[.*\])?", master) is not None
