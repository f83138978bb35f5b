"""Sessions of Spark Connect: a server does the work, reached by gRPC. See `mode.SparkMode`."""

import copy
import re
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta, tzinfo
from importlib import import_module
from threading import Thread
from typing import TYPE_CHECKING, Any
from zoneinfo import ZoneInfo

from logdriven_dagster.config.connections import given_url
from logdriven_dagster.config.project import Project
from logdriven_dagster.config.sql.references import is_query
from logdriven_dagster.engine.spark.connect import internals
from logdriven_dagster.engine.spark.connect.metrics import (
    SERVER_ZONE,
    is_ours,
    query_plan,
    tells_plans,
)
from logdriven_dagster.engine.spark.mode import BY_PROCESS, CountedReads, Mark
from logdriven_dagster.errors import UsageError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Observation, SparkSession

    from logdriven_dagster.engine.spark.query_plans import QueryPlan

_SIZE = re.compile(r"sizeInBytes=([\d.E+]+) (B|KiB|MiB|GiB|TiB|PiB|EiB)")
_UNITS = ("B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB")
_UNKNOWN_SIZE = 2**62

_DAYS = 366 * 80
_TRIES = 8
_LONGEST_PAUSE_MILLISECONDS = 5_000
"""A server that does not answer for about half a minute is gone; by default PySpark waits for ten
minutes, in which nobody else can have the window."""


class ConnectMode:
    """The mode of a Spark Connect session, which is reached through PySpark's Connect client."""

    lists_files = False
    divides_by_texts = True
    tells_files = True
    converts_files = True
    takes_lists = True
    functions = BY_PROCESS

    def adopt(self, spark: "SparkSession", project: Project) -> None:
        """UsageError for a foreign server that would misread the times of the databases."""
        patient(spark)
        if not is_ours(spark):
            refuse_other_zone(spark, project)

    def application_id(self, spark: "SparkSession") -> str:
        """Return that of the session where a server hides its own, as serverless ones do."""
        untyped: Any = spark
        return str(spark.conf.get("spark.app.id", None) or untyped.session_id)

    def new_session(self, spark: "SparkSession") -> "SparkSession":
        from logdriven_dagster.engine.spark.connect.channels import CauseKeeper, CauseKeepingChannel

        # As `newSession` does it from Spark 4.3 on; before it is not implemented.
        channel = copy.deepcopy(internals.channel_builder(spark))
        channel.set(channel.PARAM_SESSION_ID, None)
        if not isinstance(channel, CauseKeepingChannel):  # a session that others have made
            channel.add_interceptor(CauseKeeper())
        session_type: Any = type(spark)
        session: SparkSession = session_type(channel, userId=internals.user(spark))
        internals.share_compression(spark, session)
        return patient(session)

    def clone(self, spark: "SparkSession", settings: Mapping[str, str]) -> "SparkSession | None":
        from logdriven_dagster.engine.spark.connect.clones import clone

        def made(given: Mapping[str, str]) -> "SparkSession":
            session = self.new_session(spark)
            self.configure(session, given)
            return session

        cloned = clone(spark, settings, made)
        return None if cloned is None else patient(cloned)

    def configure(self, session: "SparkSession", settings: Mapping[str, str]) -> None:
        """Set all in one request; `connect` has warned of what a running server does not take."""
        from pyspark.sql.connect.proto import ConfigRequest, KeyValue

        client: Any = session.client
        pairs = [KeyValue(key=name, value=value) for name, value in settings.items()]
        setting = ConfigRequest.Set(pairs=pairs, silent=True)
        client.config(ConfigRequest.Operation(set=setting))

    def release(self, session: "SparkSession") -> None:
        session.stop()
        internals.forget_at_exit(session)

    def thread(self, spark: "SparkSession", work: Callable[[], None]) -> Thread:
        from pyspark import InheritableThread

        return InheritableThread(target=work, daemon=True, session=spark)

    def mark(self, spark: "SparkSession", mark: Mark) -> None:
        """Set the tag alone: each operation has a thread and a pool of its own on the server."""
        spark.addTag(mark.tag)

    def cancel(self, spark: "SparkSession", mark: Mark) -> None:
        spark.interruptTag(mark.tag)

    def query_plan(self, spark: "SparkSession", mark: Mark) -> "QueryPlan | None":
        return query_plan(spark, mark.tag)

    def counted_reads(self, spark: "SparkSession") -> "CountedReads | None":
        from logdriven_dagster.engine.spark.connect.observed_reads import ObservedReads

        return None if tells_plans(spark) else ObservedReads(spark)

    def again(self, known: "DataFrame", spark: "SparkSession") -> "DataFrame | None":  # noqa: ARG002 - as SparkMode has it
        """None: what is known of the files is the server's, for one question."""
        return None

    def input_files(self, frame: "DataFrame") -> list[str]:
        return list(frame.inputFiles())

    def name_frame(self, frame: "DataFrame", name: str) -> None:
        frame.createOrReplaceTempView(f"`{name}`")

    def query(
        self,
        spark: "SparkSession",
        sql: str,
        values: Mapping[str, Any],
        frames: "Mapping[str, DataFrame]",
    ) -> "DataFrame":
        """Return the result; the server hears of a query with whatever is asked of it first.

        PySpark would have the server analyze it before, since it may be a command.
        """
        from logdriven_dagster.engine.spark.connect.queries import query_over, watched_query

        watched = watched_query(spark, sql, values, frames)
        if watched is not None:
            return watched
        if is_query(sql):
            return query_over(spark, sql, values, {})
        return spark.sql(sql, args=dict(values))

    def observed(self, observation: "Observation") -> Mapping[str, Any]:
        return observation.get

    def estimated_bytes(self, frame: "DataFrame") -> int:
        size = _SIZE.search(internals.explanation(frame))
        return int(float(size[1]) * 1024 ** _UNITS.index(size[2])) if size else _UNKNOWN_SIZE

    def imports_here(self, spark: "SparkSession") -> bool:  # noqa: ARG002 - as SparkMode has it
        """False: they belong to the server, wherever that is."""
        return False

    def has_java_class(self, spark: "SparkSession", file: str) -> bool:  # noqa: ARG002 - as SparkMode has it
        """False: nobody can ask a server for its class path."""
        return False


def refuse_other_zone(spark: "SparkSession", project: Project) -> None:
    """UsageError for a server whose JVM is in another time zone than the project's databases.

    JDBC drivers take times without a zone to be in the JVM's, which no session can change.
    """
    if not any(map(given_url, project.config.connections.values())):
        return
    zone = spark.conf.get(SERVER_ZONE, None)
    if zone is None:
        row = spark.sql("SELECT reflect('java.time.ZoneId', 'systemDefault')").first()
        zone = None if row is None else row[0]
    if zone is None or not _are_alike(ZoneInfo(zone), project.zone):
        raise UsageError(
            f"the Spark server's JVM is in the time zone {zone}, the project in {project.zone}, so "
            "times in its databases would be misread; start the server with "
            f"-Duser.timezone={project.zone} in spark.driver.extraJavaOptions"
        )


def _are_alike(one: tzinfo, other: tzinfo) -> bool:
    """Whether two zones have the same clocks, whatever they are called: Etc/UTC and UTC."""
    if str(one) == str(other):
        return True
    noons = [datetime(1970, 1, 1, 12) + timedelta(days=n) for n in range(_DAYS)]
    return all(one.utcoffset(noon) == other.utcoffset(noon) for noon in noons)


def patient(session: "SparkSession") -> "SparkSession":
    """Give the session's client our retry policy and return it."""
    from pyspark.sql.connect.client.retries import DefaultPolicy

    client: Any = session.client
    policy = DefaultPolicy(max_retries=_TRIES, max_backoff=_LONGEST_PAUSE_MILLISECONDS)
    client.set_retry_policies([policy])
    return session


def require_packages() -> None:
    """UsageError if a package is missing that PySpark needs for Spark Connect."""
    try:
        import_module("pyspark.sql.connect.session")
    except ImportError as error:
        fix = "run `pip install 'logdriven_dagster[connect]'`"
        raise UsageError(f"Spark Connect needs more packages: {error}; {fix}") from None
