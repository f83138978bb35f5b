"""Spark sessions: one for the process, and a new one over it for each window."""

import logging
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib import import_module
from threading import Thread, current_thread, main_thread
from typing import TYPE_CHECKING

import psutil

from logdriven_dagster.config.checking.engines import EngineContext
from logdriven_dagster.config.project import Project
from logdriven_dagster.engine.spark.classic.archives.archive import archive_for
from logdriven_dagster.engine.spark.classic.archives.training import train_at_exit
from logdriven_dagster.engine.spark.classic.installation import refuse_client_alone
from logdriven_dagster.engine.spark.classic.java import ensure_java
from logdriven_dagster.engine.spark.classic.java_noise import java_noise_hidden
from logdriven_dagster.engine.spark.classic.launching import start_session
from logdriven_dagster.engine.spark.connecting import connect, remote_url
from logdriven_dagster.engine.spark.engine_type import SparkEngineType, Watch
from logdriven_dagster.engine.spark.functions import functions_for
from logdriven_dagster.engine.spark.modes import mode_of
from logdriven_dagster.engine.spark.settings import (
    is_little_work,
    launch_settings,
    session_settings,
)
from logdriven_dagster.model.runs import ExpectedWork

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_SPARK_LOGGERS = ("SQLQueryContextLogger", "DataFrameQueryContextLogger", "py4j")


class Spark(SparkEngineType):
    """Spark, which supports every table."""

    name, title = "spark", "Spark"

    def why_unsupported(self, table: str) -> None:
        """Return None: Spark supports every table."""

    def session(self, context: EngineContext, _watch: Watch) -> "SparkSession":
        if context.spark is None:
            return spark_session(self.project, context.expected)
        given: SparkSession = context.spark()
        return given


def spark_session(project: Project, expected: ExpectedWork | None = None) -> "SparkSession":
    """Return the process's Spark session; start it with the project's settings if needed.

    It is a Spark Connect session if the project configures one. Values under `spark.config`
    override every default. `expected` affects only the speed. Raises UsageError if no Java is
    found, or no server answers.
    """
    from pyspark.sql import SparkSession

    if active := SparkSession.getActiveSession():
        return active
    if url := remote_url(project):
        quieten()
        return connect(project, url)
    refuse_client_alone()
    ensure_java()
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    settings = launch_settings(project, expected)
    if archive := archive_for(settings):
        if archive.can_be_used():
            settings = archive.settings_to_use(settings)
        elif is_little_work(project, expected):
            train_at_exit(project, archive)
    quieten()
    # PySpark's first call of Java would import this module and pandas, while Java waits.
    Thread(target=import_module, args=("pyspark.testing",), daemon=True).start()
    with _no_orphans(), _signals_as_they_were(), java_noise_hidden():
        return start_session(settings)


@contextmanager
def _no_orphans() -> Iterator[None]:
    """Kill the JVM of an interrupted start, which PySpark no longer references."""
    me = psutil.Process()
    before = set(me.children(recursive=True))
    try:
        yield
    except BaseException:
        for child in set(me.children(recursive=True)) - before:
            with suppress(psutil.NoSuchProcess):
                child.kill()
        raise


@contextmanager
def _signals_as_they_were() -> Iterator[None]:
    """Restore the handler of Ctrl-C, which PySpark replaces to cancel all jobs.

    That cancellation looks like a failure; code that waits for Spark here cancels its own work.
    """
    before = signal.getsignal(signal.SIGINT)
    try:
        yield
    finally:
        if before is not None and current_thread() is main_thread():
            signal.signal(signal.SIGINT, before)


@contextmanager
def fresh_session(
    spark: "SparkSession", project: Project, *, few_rows: bool = False, brings_code: bool = True
) -> "Iterator[SparkSession]":
    """Provide a new session over the same application, with its own views and settings.

    `few_rows`: see `session_settings`. `brings_code` is True if the work may add its own code to
    the session, such as Python functions that add files, which other sessions must not see.
    """
    mode, settings = mode_of(spark), session_settings(project, few_rows=few_rows)
    cloned = None if brings_code else mode.clone(spark, settings)
    session = mode.new_session(spark) if cloned is None else cloned
    try:
        if cloned is None:
            mode.configure(session, settings)
        with functions_for(session):
            yield session
    finally:
        with suppress(Exception):  # if the application is gone, so is the session
            mode.release(session)


def quieten() -> None:
    """Stop PySpark from logging the errors that the engine raises, which may contain secrets."""
    for name in _SPARK_LOGGERS:
        logging.getLogger(name).setLevel(logging.CRITICAL)
