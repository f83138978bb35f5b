"""Settings of Spark: what a JVM is started with, and what every session gets."""

import os
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from tempfile import gettempdir

from logdriven_dagster.config.connections import given_url
from logdriven_dagster.config.locations import is_remote, location_of
from logdriven_dagster.config.models.fields import Option
from logdriven_dagster.config.project import Project
from logdriven_dagster.config.secrets import has_reference, resolve
from logdriven_dagster.engine.spark.mode import is_one_jvm
from logdriven_dagster.engine.spark.object_stores import hadoop_settings
from logdriven_dagster.errors import UsageError
from logdriven_dagster.private_files import private_folder

_JDBC_JARS = {
    "org.postgresql.Driver": ("postgresql.jar",),
    "org.mariadb.jdbc.Driver": ("mariadb-java-client.jar",),
    "org.sqlite.JDBC": ("sqlite-jdbc.jar", "sqlite-jdbc-jni.jar"),
}
"""Driver class → the files that Debian's packages install."""

_PACKAGES = {
    "org.postgresql.Driver": "Debian's libpostgresql-jdbc-java",
    "org.mariadb.jdbc.Driver": "Debian's libmariadb-java",
    "org.sqlite.JDBC": "Debian's libxerial-sqlite-jdbc-java",
}
_BRINGS_JARS = {"spark.jars", "spark.jars.packages", "spark.driver.extraClassPath"}

_REDACTED = "(?i)secret|passw(or)?d|token|credential|(access|account)[.]?key|jaas"
"""Names of settings whose values Spark's own pages do not show: its default, and some more."""

_DEBIAN_JARS = Path("/usr/share/java")

_LOOPBACK = "127.0.0.1"
_CLASS_PATH = "spark.driver.extraClassPath"

_LARGE_REGIONS = "-XX:G1HeapRegionSize=32m"
"""Spark's buffers are of a megabyte and more, for which G1 has a slow way of its own in heaps of
small regions, its default: a sixth of the time of writing Parquet. Other collectors ignore it."""
_PATIENT_COMPILER = (
    "-XX:Tier4InvocationThreshold=50000",
    "-XX:Tier4MinInvocationThreshold=6000",
    "-XX:Tier4CompileThreshold=150000",
    "-XX:Tier4BackEdgeThreshold=400000",
)
"""Java compiles a method once more, with all optimizations, when it is used ten times as much as by
default. Most of Spark's code is used a few thousand times in a run, and never pays that back. Loops
over rows reach it soon. Measured on two cores (docs/spark.md)."""
JVM_OPTIONS = (_LARGE_REGIONS, *_PATIENT_COMPILER)
"""What makes any JVM of Spark faster; none of them changes a result."""

_COMMITS = "org.apache.spark.sql.execution.datasources.SQLHadoopMapReduceCommitProtocol"

FEW_ROWS = 500_000
"""Below it a window is faster without whole-stage code generation, which writes its bounds into the
code: each window has a new loop, that Java compiles anew. Measured on two cores (docs/spark.md)."""


def launch_settings(project: Project) -> dict[str, str]:
    """What a JVM has to be started with."""
    spark = project.config.spark
    started = {"spark.master": spark.master, "spark.app.name": spark.app_name or project.name}
    return project_settings(project) | _java_options(project) | started


def project_settings(project: Project) -> dict[str, str]:
    """What a project means to Spark, wherever its JVM comes from; what it gives itself wins."""
    given, jars = given_settings(project), _jdbc_jars(project)
    stores = hadoop_settings(project.storage) if project.uses_object_stores else {}
    settings = _defaults(project) | stores | _hidden(project) | given | session_settings(project)
    for name in (_CLASS_PATH, "spark.executor.extraClassPath"):
        if path := os.pathsep.join([*jars, *filter(None, [given.get(name)])]):
            settings[name] = path
    return settings


def session_settings(project: Project, *, few_rows: bool = False) -> dict[str, str]:
    """Return the settings of every session that the engine uses: its results depend on them.

    Except for one: `few_rows` only decides how fast a session is, whose work goes through less than
    FEW_ROWS as far as anybody knows.
    """
    own = {
        # INT96 has no statistics, and Iceberg refuses files with it.
        "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
        # Published files are listed by name: a Spark job to list them costs ten times as much.
        "spark.sql.sources.parallelPartitionDiscovery.threshold": "100000",
        # Spark's own: what a job has committed is what its folder shows. Others show more.
        "spark.sql.sources.commitProtocolClass": _COMMITS,
        # Spark would fill texts of CHAR columns with blanks that databases do not show.
        "spark.sql.readSideCharPadding": "false",
    }
    if few_rows:
        own["spark.sql.codegen.wholeStage"] = "false"
    given = {k: v for k, v in given_settings(project).items() if k.startswith("spark.sql.")}
    return (
        own
        | given
        | {
            # The time zone has one place in a project: windows and rows must agree about it.
            "spark.sql.session.timeZone": str(project.zone),
            # Spark would replace ${env:NAME} in any text of a query, also where data have it.
            "spark.sql.variable.substitute": "false",
        }
    )


def given_settings(project: Project) -> dict[str, str]:
    """What the project sets, its secrets resolved; UsageError names the setting that lacks one."""
    found = {}
    for key, value in project.config.spark.config.items():
        try:
            found[key] = resolve(option_text(value), key)
        except UsageError as missing:
            raise UsageError(f"spark.config: {key}: {missing}") from None
    return found


def option_texts(options: Mapping[str, Option]) -> dict[str, str]:
    """Options of the configuration as Spark spells them, their secrets resolved."""
    return {name: resolve(option_text(value), name) for name, value in options.items()}


def option_text(value: Option) -> str:
    """Return an option of the configuration as Spark spells it."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def _defaults(project: Project) -> dict[str, str]:
    return {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        # Windows that run side by side share the cores; a single one notices nothing of it.
        "spark.scheduler.mode": "FAIR",
        "spark.driver.bindAddress": _LOOPBACK,
        "spark.driver.host": _LOOPBACK,
        "spark.sql.shuffle.partitions": str(max(_cores(), 2)),
        # Of finished queries only the last one is looked at; the default keeps 1,000 plans alive.
        "spark.sql.ui.retainedExecutions": "50",
        "spark.sql.warehouse.dir": _spark_warehouse(project),
        "spark.sql.catalogImplementation": "in-memory",
        **(_closed_doors() if is_one_jvm(project.config.spark.master) else {}),
    }


def _spark_warehouse(project: Project) -> str:
    """Return the folder of tables that a query makes in Spark's own catalog; none of ours does."""
    if is_remote(project.warehouse):
        return location_of(project.root / ".logdriven" / "spark")
    return f"{project.warehouse}/spark"


def _hidden(project: Project) -> dict[str, str]:
    """What Spark's own pages do not show: what came from outside, whatever it is called."""
    given = project.config.spark.config.items()
    # Hadoop's settings are shown once more without the beginning of their names.
    own = [name.removeprefix("spark.hadoop.") for name, value in given if has_reference(str(value))]
    names = [rf"\Q{name}\E" for name in own]
    return {"spark.redaction.regex": "|".join([_REDACTED, *names])}


def _closed_doors() -> dict[str, str]:
    """Where one JVM does all the work, nobody but itself has to reach its ports and its files.

    Spark makes a secret for each such JVM. Those of a cluster share one, which has to be given.
    """
    return {
        # Without spark.network.crypto.enabled: only root could listen to what a machine says to
        # itself, and Spark 4.3 loses connections with it.
        "spark.authenticate": "true",
        # Spark's own folders in there can be entered by every user.
        "spark.local.dir": str(private_folder(Path(gettempdir()), "logdriven-spark")),
    }


def _java_options(project: Project) -> dict[str, str]:
    """Options of the JVM, beside those that the project gives."""
    given = given_settings(project)
    # JDBC drivers take times without a zone to be in the JVM's, whatever the session says.
    zone = f"-Duser.timezone={project.zone}"
    java = {
        "spark.driver.extraJavaOptions": [
            zone,
            *JVM_OPTIONS,
            _log_option(),
            *_sqlite_options(project),
        ],
        "spark.executor.extraJavaOptions": [zone, *JVM_OPTIONS],
    }
    return {
        name: " ".join([*options, given.get(name, "")]).strip() for name, options in java.items()
    }


def _cores() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _log_option() -> str:
    return f"-Dlog4j2.configurationFile={Path(__file__).with_name('log4j2.properties')}"


def _drivers(project: Project) -> set[str]:
    databases = [name for name, given in project.config.connections.items() if given_url(given)]
    return {driver for name in databases if (driver := project.driver(name)) is not None}


def _jdbc_jars(project: Project) -> list[str]:
    """Return the drivers of the project's connections that Debian's packages brought."""
    names = [name for driver in _drivers(project) for name in _JDBC_JARS.get(driver, ())]
    return [str(_DEBIAN_JARS / name) for name in sorted(names) if (_DEBIAN_JARS / name).is_file()]


def refuse_missing_driver(project: Project, connection: str) -> None:
    """UsageError for a JDBC driver that a Spark of this machine will not find.

    Where the project, Spark's own configuration or another machine may bring one, nobody knows.
    """
    driver = project.driver(connection)
    spark = project.config.spark
    elsewhere = spark.remote.startswith("sc:") or not spark.master.startswith("local")
    if driver not in _JDBC_JARS or elsewhere or _BRINGS_JARS.intersection(spark.config):
        return
    file, package = _JDBC_JARS[driver][0], _PACKAGES[driver]
    found = find_spec("pyspark")
    spark_home = os.environ.get("SPARK_HOME") or Path(str(found and found.origin)).parent
    brought = any((Path(spark_home) / "jars").glob(f"{file.removesuffix('.jar')}*.jar"))
    if brought or "SPARK_CONF_DIR" in os.environ or (_DEBIAN_JARS / file).is_file():
        return
    fix = f"install {package}, or name its jar in spark.config: spark.jars"
    raise UsageError(f"the JDBC driver {driver} is not on this machine; {fix}")


def _sqlite_options(project: Project) -> list[str]:
    """Where the native part of Debian's SQLite driver lies; other Javas do not look there."""
    if "org.sqlite.JDBC" not in _drivers(project):
        return []
    libraries = sorted(Path("/usr/lib").glob("**/jni/libsqlitejdbc.so"))
    return [f"-Dorg.sqlite.lib.path={libraries[0].parent}"] if libraries else []
