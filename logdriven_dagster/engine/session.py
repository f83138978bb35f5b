"""Spark sessions: one for the process, and a fresh one over it for every window."""

import logging
import os
import re
import shutil
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from threading import current_thread, main_thread
from typing import TYPE_CHECKING

import psutil

from logdriven_dagster.config.project import Project
from logdriven_dagster.config.secrets import SECRET_NAME, resolve_environment, resolve_secret
from logdriven_dagster.engine.java import ensure_java

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_JDBC_JARS = {
    "org.postgresql.Driver": ("postgresql.jar",),
    "org.mariadb.jdbc.Driver": ("mariadb-java-client.jar",),
    "org.sqlite.JDBC": ("sqlite-jdbc.jar", "sqlite-jdbc-jni.jar"),
}
"""Driver class → the files that Debian's packages install."""

_DEBIAN_JARS = Path("/usr/share/java")

_SELF_ARCHIVING_JAVA = 19

_SPARK_LOGGERS = ("SQLQueryContextLogger", "DataFrameQueryContextLogger", "py4j")


def spark_session(project: Project) -> "SparkSession":
    """The process's Spark session, started with the project's configuration if there is none.

    What the project sets under `spark.config` wins over every default here. Raises UsageError where
    no Java is found.
    """
    from pyspark.sql import SparkSession

    if active := SparkSession.getActiveSession():
        return active
    ensure_java()
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    builder = SparkSession.builder.master(project.config.spark.master)
    builder = builder.appName(project.config.spark.app_name or project.name)
    settings = _defaults(project) | _given(project) | _launch(project) | session_settings(project)
    for name, value in settings.items():
        builder = builder.config(name, value)
    quieten()
    with _no_orphans(), _signals_as_they_were():
        return builder.getOrCreate()


@contextmanager
def _no_orphans() -> Iterator[None]:
    """End the JVM of a start that is interrupted: PySpark forgets one it was still waiting for."""
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
    """PySpark answers Ctrl-C by cancelling everything, which looks like a failure to who waits.

    Whoever waits for Spark here cancels its own work, knowing why.
    """
    before = signal.getsignal(signal.SIGINT)
    try:
        yield
    finally:
        if before is not None and current_thread() is main_thread():
            signal.signal(signal.SIGINT, before)


def session_settings(project: Project) -> dict[str, str]:
    """The settings on which the engine's results depend, for every session that it uses."""
    own = {
        # INT96 has no statistics, and Iceberg refuses files with it (DESIGN §9).
        "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
        # Published files are listed by name: a Spark job to list them costs ten times as much.
        "spark.sql.sources.parallelPartitionDiscovery.threshold": "100000",
        # Otherwise Spark 4.1 and later write bound values into the text of the query, a TIMESTAMP
        # without its offset: the second of the two hours when clocks go back becomes the first.
        "spark.sql.legacy.parameterSubstitution.constantsOnly": "true",
        # Spark would fill texts of CHAR columns with blanks that databases do not show.
        "spark.sql.readSideCharPadding": "false",
    }
    given = {k: v for k, v in _given(project).items() if k.startswith("spark.sql.")}
    # The time zone has one place in a project, because windows and rows must agree about it.
    return own | given | {"spark.sql.session.timeZone": str(project.zone)}


def fresh_session(spark: "SparkSession", project: Project) -> "SparkSession":
    """A session over the same application, with views and settings of its own."""
    session = spark.newSession()
    for name, value in session_settings(project).items():
        if session.conf.isModifiable(name):
            session.conf.set(name, value)
    return session


def quieten() -> None:
    """Keep PySpark from printing the errors that the engine raises, secrets and all."""
    for name in _SPARK_LOGGERS:
        logging.getLogger(name).setLevel(logging.CRITICAL)


def _given(project: Project) -> dict[str, str]:
    """What the project sets, `${env:NAME}` replaced."""
    return {
        key: (resolve_secret if SECRET_NAME.search(key) else resolve_environment)(text)
        for key, value in project.config.spark.config.items()
        for text in [option_text(value)]
    }


def option_text(value: object) -> str:
    """An option of the configuration as Spark spells it."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def _defaults(project: Project) -> dict[str, str]:
    return {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        # Windows that run side by side share the cores; a single one notices nothing of it.
        "spark.scheduler.mode": "FAIR",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.sql.shuffle.partitions": str(max(_cores(), 2)),
        # Of finished queries only the last one is looked at; the default keeps 1,000 plans alive.
        "spark.sql.ui.retainedExecutions": "50",
        "spark.sql.warehouse.dir": str(project.warehouse / "spark"),
        "spark.sql.catalogImplementation": "in-memory",
    }


def _launch(project: Project) -> dict[str, str]:
    """Options of the JVM, beside those that the project gives."""
    given = _given(project)
    java = [_log_option(), *_archive_options(), *_sqlite_options(project)]
    options = "spark.driver.extraJavaOptions"
    settings = {options: " ".join([*java, given.get(options, "")]).strip()}
    jars = _jdbc_jars(project)
    for name in ("spark.driver.extraClassPath", "spark.executor.extraClassPath"):
        if path := os.pathsep.join([*jars, *filter(None, [given.get(name)])]):
            settings[name] = path
    return settings


def _cores() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _log_option() -> str:
    package = find_spec("logdriven_dagster.engine")
    assert package is not None
    assert package.origin is not None
    return f"-Dlog4j2.configurationFile={Path(package.origin).with_name('log4j2.properties')}"


def _archive_options() -> list[str]:
    """Class data sharing, which halves the start of a JVM that can keep its archive by itself."""
    if _java_version() < _SELF_ARCHIVING_JAVA:
        return []
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "logdriven"
    try:
        cache.mkdir(parents=True, exist_ok=True)
    except OSError:
        return []
    archive = cache / f"spark-{version('pyspark')}-java-{_java_version()}.jsa"
    return ["-XX:+AutoCreateSharedArchive", f"-XX:SharedArchiveFile={archive}", "-Xlog:cds=off"]


def _java_version() -> int:
    """The major version of the Java that Spark will start, from its release file; 0 if unknown."""
    home = os.environ.get("JAVA_HOME")
    java = Path(home, "bin", "java") if home else Path(shutil.which("java") or "/")
    release = (Path(home) if home else java.resolve().parent.parent) / "release"
    match = re.search(r'JAVA_VERSION="(\d+)', release.read_text()) if release.is_file() else None
    return int(match[1]) if match else 0


def _drivers(project: Project) -> set[str]:
    databases = [name for name, given in project.config.connections.items() if given.url]
    return {project.connection(name).driver for name in databases}


def _jdbc_jars(project: Project) -> list[str]:
    """The drivers of the project's connections that Debian's packages brought."""
    names = [name for driver in _drivers(project) for name in _JDBC_JARS.get(driver, ())]
    return [str(_DEBIAN_JARS / name) for name in sorted(names) if (_DEBIAN_JARS / name).is_file()]


def _sqlite_options(project: Project) -> list[str]:
    """Where the native part of Debian's SQLite driver lies; other Javas do not look there."""
    if "org.sqlite.JDBC" not in _drivers(project):
        return []
    libraries = sorted(Path("/usr/lib").glob("**/jni/libsqlitejdbc.so"))
    return [f"-Dorg.sqlite.lib.path={libraries[0].parent}"] if libraries else []
