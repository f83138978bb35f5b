"""Start of the JVM of a classic session, with its settings in a file."""

import os
import shlex
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING

from logdriven_dagster.engine.spark.classic import internals
from logdriven_dagster.engine.spark.classic.settings_files import settings_file

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_BOUND_TO = "spark.driver.bindAddress"


def start_session(settings: Mapping[str, str], *, own_session: bool = True) -> "SparkSession":
    """Start a JVM with these settings and return a classic session in it.

    `own_session`: whether the JVM gets a process session of its own, which Ctrl-C does not reach.
    """
    from pyspark.sql import SparkSession

    start_java(settings, own_session=own_session)
    builder = SparkSession.builder
    for name, value in settings.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def start_java(settings: Mapping[str, str], *, own_session: bool = True) -> None:
    """Start the JVM that PySpark uses from now on, unless it has one. See `start_session`."""
    if internals.gateway() is not None:
        return
    given = os.environ.get("PYSPARK_SUBMIT_ARGS", "pyspark-shell")
    with settings_file(settings) as file:
        options = ["--properties-file", str(file), "--load-spark-defaults"]
        changes = {"PYSPARK_SUBMIT_ARGS": f"{shlex.join(options)} {given}"}
        # The address of the pages of spark.ui.enabled. Without it Spark would also look up the name
        # of its machine first, which DNS may not know.
        changes["SPARK_LOCAL_IP"] = os.environ.get("SPARK_LOCAL_IP") or settings[_BOUND_TO]
        with _environment(changes):
            internals.start_machine(own_session=own_session)


@contextmanager
def _environment(changes: Mapping[str, str]) -> Iterator[None]:
    before = {name: os.environ.get(name) for name in changes}
    os.environ.update(changes)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
