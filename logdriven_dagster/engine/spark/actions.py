"""Interruptible Spark actions and the row counts that Spark recorded for them."""

import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar, copy_context
from dataclasses import dataclass
from threading import Thread
from typing import TYPE_CHECKING, Generic, TypeVar

from logdriven_dagster.engine.spark.mode import Mark
from logdriven_dagster.engine.spark.modes import mode_of
from logdriven_dagster.engine.spark.query_plans import Scan

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Result = TypeVar("Result")

_POLL_SECONDS = 0.1
_PATIENCE_SECONDS = 10

_checks: ContextVar[tuple[Callable[[], None], ...]] = ContextVar("checks", default=())
_pool: ContextVar[str | None] = ContextVar("pool", default=None)


@contextmanager
def watch_actions(check: Callable[[], None]) -> Iterator[None]:
    """Call `check` about ten times a second while Spark works within this block.

    An exception that `check` raises cancels the work like an interruption and propagates to the
    caller.
    """
    token = _checks.set((*_checks.get(), check))
    try:
        yield
    finally:
        _checks.reset(token)


def run_checks() -> None:
    """Call the checks that watch this thread's work, for callers that wait without working."""
    for check in _checks.get():
        check()


@contextmanager
def in_pool(name: str) -> Iterator[None]:
    """Run the Spark work of this block in a scheduler pool; pools share the cores fairly."""
    token = _pool.set(name)
    try:
        yield
    finally:
        _pool.reset(token)


def finish(thread: Thread, cancel: Callable[[], None]) -> None:
    """Start a thread and wait for its end; call `cancel` if an exception ends the wait early."""
    thread.start()
    try:
        while thread.is_alive():
            thread.join(_POLL_SECONDS)
            run_checks()
    except BaseException:
        # Repeatedly, because a query that is still being planned starts its jobs later.
        for _ in range(int(_PATIENCE_SECONDS / _POLL_SECONDS)):
            cancel()
            thread.join(_POLL_SECONDS)
            if not thread.is_alive():
                break
        raise


class Action(Generic[Result]):
    """Spark work in its own thread, identified by a mark.

    PySpark does not notice signals while it waits for Java, so the calling thread only polls. When
    it is interrupted by any exception, the jobs are cancelled by their mark. The work runs with the
    caller's context variables, such as the current tracing span.
    """

    def __init__(self, spark: "SparkSession", label: str, work: Callable[[], Result]) -> None:
        self._spark, self._mode = spark, mode_of(spark)
        self._work, self._context = work, copy_context()
        self.mark = Mark(label, f"logdriven-{uuid.uuid4().hex}", _pool.get())
        self._result: list[Result] = []
        self._error: list[BaseException] = []

    def run(self) -> Result:
        """Run the work in a thread; return its result or raise its exception."""
        thread = self._mode.thread(self._spark, self._body)
        finish(thread, lambda: self._mode.cancel(self._spark, self.mark))
        if self._error:
            raise self._error[0]
        return self._result[0]

    def _body(self) -> None:
        try:
            self._mode.mark(self._spark, self.mark)
            self._result.append(self._context.run(self._work))
        except BaseException as error:  # raised again by `run`  # noqa: BLE001 - handed to the waiting thread
            self._error.append(error)


def run_action(spark: "SparkSession", label: str, work: Callable[[], Result]) -> Result:
    """Run Spark work interruptibly and return its result, without collecting row counts.

    `label` describes the work in Spark's user interface.
    """
    return Action(spark, label, work).run()


@dataclass(frozen=True, slots=True)
class QueryCounts:
    """Row counts of one finished write; None where Spark recorded no number."""

    source: int | None
    """Rows that the sources delivered, after the filters directly above them.

    A source that the query reads twice counts twice; one that Spark never had to read counts zero.
    None under a LIMIT, because the number of rows that Spark reads is then arbitrary.
    """
    written: int | None
    """Rows that the writer wrote."""
    most: int | None = None
    """Largest row count of any plan node, such as a scan before its filter or a join."""
    scans: tuple[Scan, ...] = ()
    """The parts of `source`; empty if it is None."""


def run_counted(spark: "SparkSession", label: str, write: Callable[[], None]) -> QueryCounts:
    """Run one writing query interruptibly and return its row counts.

    `write` runs the query, `label` describes it in Spark's user interface.
    """
    action = Action(spark, f"{label}: write", write)
    action.run()
    return query_counts(spark, action.mark)


def query_counts(spark: "SparkSession", mark: Mark) -> QueryCounts:
    """Return the row counts of the latest query that ran under this mark."""
    plan = mode_of(spark).query_plan(spark, mark)
    if plan is None:
        return QueryCounts(None, None)
    scans = plan.scans()
    source = None if scans is None else sum(scan.rows for scan in scans)
    return QueryCounts(source, plan.get_written_rows(), plan.most_rows(), tuple(scans or ()))
