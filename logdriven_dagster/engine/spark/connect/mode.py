"""Sessions of Spark Connect: a server does the work, reached by gRPC. See `modes.SparkMode`."""

import atexit
import copy
import re
import warnings
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from logdriven_dagster.config.project import Project
from logdriven_dagster.engine.spark.connect.errors import keep_causes
from logdriven_dagster.engine.spark.connect.metrics import SERVER_ZONE, is_ours, query_plan
from logdriven_dagster.engine.spark.modes import Mark
from logdriven_dagster.errors import UsageError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Observation, SparkSession

    from logdriven_dagster.engine.spark.metrics import QueryPlan

_SIZE = re.compile(r"sizeInBytes=([\d.E+]+) (B|KiB|MiB|GiB|TiB|PiB|EiB)")
_UNITS = ("B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB")
_UNKNOWN_SIZE = 2**62

_TRIES = 8
_LONGEST_PAUSE_MILLISECONDS = 5_000
"""A server that does not answer for about half a minute is gone; by default PySpark waits for ten
minutes, in which nobody else can have the window."""


class ConnectMode:
    """Through PySpark's Connect client."""

    lists_files = False

    def adopt(self, spark: "SparkSession", project: Project) -> None:
        """UsageError for a foreign server that would misread the times of the databases."""
        # Settings that a running server refuses are told once, not for every window.
        warnings.filterwarnings("ignore", module=r"pyspark\.sql\.connect\.conf")
        prepared(spark)
        if not is_ours(spark):
            refuse_other_zone(spark, project)

    def application_id(self, spark: "SparkSession") -> str:
        return str(spark.conf.get("spark.app.id"))

    def new_session(self, spark: "SparkSession") -> "SparkSession":
        # As `newSession` does it from Spark 4.3 on; before it is not implemented.
        client: Any = spark.client
        builder = copy.deepcopy(client._builder)  # noqa: SLF001
        builder._params.pop(builder.PARAM_SESSION_ID, None)  # noqa: SLF001
        session_type: Any = type(spark)
        return prepared(session_type(builder, userId=client._user_id))  # noqa: SLF001

    def configure(self, session: "SparkSession", settings: Mapping[str, str]) -> None:
        conf: Any = session.conf
        conf._set_all(dict(settings), silent=True)  # noqa: SLF001 - one request instead of many

    def release(self, session: "SparkSession") -> None:
        client: Any = session.client
        session.stop()
        # Otherwise every window's client lives as long as the process.
        atexit.unregister(client._on_exit)  # noqa: SLF001

    def mark(self, spark: "SparkSession", mark: Mark) -> None:
        """The tag alone: each operation runs in a thread of the server, whose pool is its own."""
        spark.addTag(mark.tag)

    def cancel(self, spark: "SparkSession", mark: Mark) -> None:
        spark.interruptTag(mark.tag)

    def query_plan(self, spark: "SparkSession", mark: Mark) -> "QueryPlan | None":
        return query_plan(spark, mark.tag)

    def again(self, known: "DataFrame", spark: "SparkSession") -> "DataFrame | None":  # noqa: ARG002 - as SparkMode has it
        """None: what is known of the files is the server's, for one question."""
        return None

    def input_files(self, frame: "DataFrame") -> list[str]:
        return frame.inputFiles()

    def query(
        self,
        spark: "SparkSession",
        sql: str,
        values: Mapping[str, Any],
        frames: "Mapping[str, DataFrame]",
    ) -> "DataFrame":
        from logdriven_dagster.engine.spark.connect.queries import watched_query

        watched = watched_query(spark, sql, values, frames)
        return spark.sql(sql, args=dict(values)) if watched is None else watched

    def observed(self, observation: "Observation") -> Mapping[str, Any]:
        return observation.get

    def estimated_bytes(self, frame: "DataFrame") -> int:
        plan: Any = frame
        told = _SIZE.search(plan._explain_string(mode="cost"))  # noqa: SLF001 - `explain` prints it
        return int(float(told[1]) * 1024 ** _UNITS.index(told[2])) if told else _UNKNOWN_SIZE

    def has_java_class(self, spark: "SparkSession", file: str) -> bool:  # noqa: ARG002 - as SparkMode has it
        """False: nobody can ask a server for its class path."""
        return False


def refuse_other_zone(spark: "SparkSession", project: Project) -> None:
    """UsageError for a server whose JVM is in another time zone than the project's databases.

    JDBC drivers take times without a zone to be in the JVM's, which no session can change.
    """
    if not any(given.url for given in project.config.connections.values()):
        return
    zone = spark.conf.get(SERVER_ZONE, None)
    if zone is None:
        row = spark.sql("SELECT reflect('java.time.ZoneId', 'systemDefault')").first()
        zone = None if row is None else row[0]
    if zone != str(project.zone):
        raise UsageError(
            f"the Spark server's JVM is in the time zone {zone}, the project in {project.zone}, so "
            "times in its databases would be misread; start the server with "
            f"-Duser.timezone={project.zone} in spark.driver.extraJavaOptions"
        )


def prepared(session: "SparkSession") -> "SparkSession":
    """The session with our patience, and with errors that tell their causes."""
    from pyspark.sql.connect.client.retries import DefaultPolicy

    client: Any = session.client
    patience = DefaultPolicy(max_retries=_TRIES, max_backoff=_LONGEST_PAUSE_MILLISECONDS)
    client.set_retry_policies([patience])
    keep_causes(client)
    return session
