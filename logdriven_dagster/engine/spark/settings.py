"""Spark settings: those of the JVM's start, and those of every session."""

import os
import shlex
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from tempfile import gettempdir

from logdriven_dagster.config.connections import get_url
from logdriven_dagster.config.locations import is_remote, resolve_location
from logdriven_dagster.config.models.frozen import Option
from logdriven_dagster.config.project import Project
from logdriven_dagster.config.secrets import has_reference, resolve
from logdriven_dagster.engine.spark.mode import is_one_jvm
from logdriven_dagster.engine.spark.object_stores import hadoop_settings
from logdriven_dagster.errors import UsageError
from logdriven_dagster.model.runs import ExpectedWork
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
"""Names of settings that Spark's pages redact: Spark's default, and some more."""

_DEBIAN_JARS = Path("/usr/share/java")

_LOOPBACK = "127.0.0.1"
_CLASS_PATH = "spark.driver.extraClassPath"

_LARGE_REGIONS = "-XX:G1HeapRegionSize=32m"
"""Region size of the G1 collector for Spark's buffers, which are a megabyte or larger.

With the smaller default regions of small heaps, G1 allocates these buffers slowly: that costs a
sixth of the time of writing Parquet. Other collectors ignore the option.
"""
_PATIENT_COMPILER = (
    "-XX:Tier4InvocationThreshold=50000",
    "-XX:Tier4MinInvocationThreshold=6000",
    "-XX:Tier4CompileThreshold=150000",
    "-XX:Tier4BackEdgeThreshold=400000",
)
"""Thresholds at which Java recompiles a method with all optimizations: ten times the defaults.

Most of Spark's code is used a few thousand times in a run, and the compilation never pays off.
Loops over rows reach the thresholds soon. Measured on two cores (docs/spark.md).
"""
_FIRST_COMPILER_ALONE = "-XX:TieredStopAtLevel=1"
"""Compile each method once, fast, without the profiles that a second compilation needs."""
_LITTLE_SECONDS = 20.0
"""Time of earlier windows up to which a process profits from the first compiler alone.

It limits the loss if a query reads many rows that are not counted, such as those of joined tables.
"""
JVM_OPTIONS = (_LARGE_REGIONS, *_PATIENT_COMPILER)
"""Options that make any Spark JVM faster; none of them changes a result."""

_COMMITS = "org.apache.spark.sql.execution.datasources.SQLHadoopMapReduceCommitProtocol"

FEW_ROWS = 500_000
"""Row count below which a window is faster without whole-stage code generation.

Generated code contains the window's bounds, so Java compiles a new loop for each window. Measured
on two cores (docs/spark.md).
"""


def launch_settings(project: Project, expected: ExpectedWork | None = None) -> dict[str, str]:
    """Return the settings with which the project's JVM must be started.

    `expected` is the work of the process that starts it, which affects only the speed.
    """
    spark = project.config.spark
    started = {"spark.master": spark.master, "spark.app.name": spark.app_name or project.name}
    return project_settings(project) | _java_options(project, expected) | started


def project_settings(project: Project) -> dict[str, str]:
    """Return the project's settings for any JVM; values from `spark.config` take precedence."""
    given, jars = resolve_settings(project), _jdbc_jars(project)
    stores = hadoop_settings(project.storage) if project.uses_object_stores else {}
    settings = (
        _defaults(project) | stores | _build_redaction(project) | given | session_settings(project)
    )
    for name in (_CLASS_PATH, "spark.executor.extraClassPath"):
        if path := os.pathsep.join([*jars, *filter(None, [given.get(name)])]):
            settings[name] = path
    return settings


def session_settings(project: Project, *, few_rows: bool = False) -> dict[str, str]:
    """Return the settings of every session that the engine uses: its results depend on them.

    `few_rows` affects only the speed: it tunes a session whose work is expected to process fewer
    than FEW_ROWS rows.
    """
    own = {
        # INT96 has no statistics, and Iceberg refuses files with it.
        "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
        # Published files are listed by name: listing them with a Spark job costs ten times as much.
        "spark.sql.sources.parallelPartitionDiscovery.threshold": "100000",
        # Spark's own protocol: a folder shows only committed files. Others show more.
        "spark.sql.sources.commitProtocolClass": _COMMITS,
        # Spark would fill texts of CHAR columns with blanks that databases do not show.
        "spark.sql.readSideCharPadding": "false",
        # The keys of JSON files are decoded by SQL, which would refuse encodings of its readers.
        "spark.sql.legacy.javaCharsets": "true",
    }
    if few_rows:
        own["spark.sql.codegen.wholeStage"] = "false"
    given = {k: v for k, v in resolve_settings(project).items() if k.startswith("spark.sql.")}
    return (
        own
        | given
        | {
            # A project sets its time zone in one place: windows and rows must use the same one.
            "spark.sql.session.timeZone": str(project.zone),
            # Spark would replace ${env:NAME} in any text of a query, also in data values.
            "spark.sql.variable.substitute": "false",
        }
    )


def resolve_settings(project: Project) -> dict[str, str]:
    """Return the settings of `spark.config` with their secrets resolved.

    Raises UsageError, with the name of the setting, if a secret is missing.
    """
    found = {}
    for key, value in project.config.spark.config.items():
        try:
            found[key] = resolve(option_text(value), key)
        except UsageError as missing:
            raise UsageError(f"spark.config: {key}: {missing}") from None
    return found


def option_texts(options: Mapping[str, Option]) -> dict[str, str]:
    """Return options of the configuration as Spark spells them, with their secrets resolved."""
    return {name: resolve(option_text(value), name) for name, value in options.items()}


def option_text(value: Option) -> str:
    """Return an option of the configuration as Spark spells it."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def _defaults(project: Project) -> dict[str, str]:
    return {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        # Windows that run in parallel share the cores; a single one is not affected.
        "spark.scheduler.mode": "FAIR",
        "spark.driver.bindAddress": _LOOPBACK,
        "spark.driver.host": _LOOPBACK,
        "spark.sql.shuffle.partitions": str(max(_cores(), 2)),
        # Only the last finished query is inspected; the default keeps 1,000 plans in memory.
        "spark.sql.ui.retainedExecutions": "50",
        "spark.sql.warehouse.dir": _spark_warehouse(project),
        "spark.sql.catalogImplementation": "in-memory",
        **(_restrict_access() if is_one_jvm(project.config.spark.master) else {}),
    }


def _spark_warehouse(project: Project) -> str:
    """Return the folder for tables that queries make in Spark's own catalog; none of ours does."""
    if is_remote(project.warehouse):
        return resolve_location(project.root / ".logdriven" / "spark")
    return f"{project.warehouse}/spark"


def _build_redaction(project: Project) -> dict[str, str]:
    """Return the regex of settings that Spark's pages redact: all values from secret references."""
    given = project.config.spark.config.items()
    # Hadoop's settings are also shown without the prefix of their names.
    own = [name.removeprefix("spark.hadoop.") for name, value in given if has_reference(str(value))]
    names = [rf"\Q{name}\E" for name in own]
    return {"spark.redaction.regex": "|".join([_REDACTED, *names])}


def _restrict_access() -> dict[str, str]:
    """Restrict the ports and files of a single local JVM to that JVM.

    Spark makes a secret for each such JVM. The processes of a cluster share one, which must be
    configured.
    """
    return {
        # Without spark.network.crypto.enabled: only root could read the loopback traffic of the
        # machine, and Spark 4.3 loses connections with it.
        "spark.authenticate": "true",
        # Every user can enter Spark's own folders in there.
        "spark.local.dir": str(private_folder(Path(gettempdir()), "logdriven-spark")),
    }


def _java_options(project: Project, expected: ExpectedWork | None) -> dict[str, str]:
    """Return the JVM options: our own, followed by those of the project."""
    given = resolve_settings(project)
    # JDBC drivers interpret times without a zone in the JVM's zone, not the session's.
    zone = f"-Duser.timezone={project.zone}"
    java = {
        "spark.driver.extraJavaOptions": [
            zone,
            *JVM_OPTIONS,
            *([_FIRST_COMPILER_ALONE] if is_little_work(project, expected) else []),
            _log_option(),
            *_sqlite_options(project),
        ],
        "spark.executor.extraJavaOptions": [zone, *JVM_OPTIONS],
    }
    return {
        name: " ".join([*options, given.get(name, "")]).strip() for name, options in java.items()
    }


def is_little_work(project: Project, expected: ExpectedWork | None) -> bool:
    """Return whether a JVM is expected to end before Java's second compiler pays off.

    Measured on two cores (docs/spark.md).
    """
    if expected is None or not is_one_jvm(project.config.spark.master):
        return False
    return expected.rows < FEW_ROWS and expected.seconds < _LITTLE_SECONDS


def _cores() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _log_option() -> str:
    file = Path(__file__).with_name("log4j2.properties")
    return shlex.quote(f"-Dlog4j2.configurationFile={file}")


def _drivers(project: Project) -> set[str]:
    databases = [name for name, given in project.config.connections.items() if get_url(given)]
    return {driver for name in databases if (driver := project.driver(name)) is not None}


def _jdbc_jars(project: Project) -> list[str]:
    """Return the JDBC drivers of the project's connections that Debian's packages installed."""
    names = [name for driver in _drivers(project) for name in _JDBC_JARS.get(driver, ())]
    return [str(_DEBIAN_JARS / name) for name in sorted(names) if (_DEBIAN_JARS / name).is_file()]


def refuse_missing_driver(project: Project, connection: str) -> None:
    """Raise UsageError if a local Spark cannot find the JDBC driver of a connection.

    Passes if the project, Spark's own configuration or another machine may supply the driver.
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
    fix = f"install {package}, or add its jar to spark.config: spark.jars"
    raise UsageError(f"the JDBC driver {driver} is not installed on this host; {fix}")


def _sqlite_options(project: Project) -> list[str]:
    """Return the option with the native library of Debian's SQLite driver, for other Javas."""
    if "org.sqlite.JDBC" not in _drivers(project):
        return []
    libraries = sorted(Path("/usr/lib").glob("**/jni/libsqlitejdbc.so"))
    return [f"-Dorg.sqlite.lib.path={libraries[0].parent}"] if libraries else []
