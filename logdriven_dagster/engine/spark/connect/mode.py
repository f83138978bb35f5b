"""Mode of Spark Connect sessions, which a server runs. See `mode.SparkMode`."""

import copy
import re
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta, tzinfo
from importlib import import_module
from threading import Thread
from typing import TYPE_CHECKING, Any
from zoneinfo import ZoneInfo

from logdriven_dagster.config.connections import get_url
from logdriven_dagster.config.project import Project
from logdriven_dagster.config.sql.references import is_query
from logdriven_dagster.engine.spark.connect import internals
from logdriven_dagster.engine.spark.connect.metrics import (
    SERVER_ZONE,
    is_ours,
    query_plan,
    reports_plans,
)
from logdriven_dagster.engine.spark.mode import (
    BY_PROCESS,
    BackendCapabilities,
    CountedReads,
    Mark,
    columns_of_ddl,
)
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
"""Back-off limit that considers a silent server lost after about half a minute.

PySpark's default is ten minutes, in which no other runner could take over the window.
"""


class ConnectMode:
    """The mode of a Spark Connect session, which is reached through PySpark's Connect client."""

    title = "Spark"
    capabilities = BackendCapabilities(lists_files_eagerly=False)
    functions = BY_PROCESS
    parse_columns = staticmethod(columns_of_ddl)

    def adopt(self, spark: "SparkSession", project: Project) -> None:
        """Set the retry policy; raise UsageError if the server would misread database times."""
        patient(spark)
        if not is_ours(spark):
            refuse_other_zone(spark, project)

    def application_id(self, spark: "SparkSession") -> str:
        """Return the application's id, or the session's where the server hides it.

        Serverless servers do.
        """
        untyped: Any = spark
        return str(spark.conf.get("spark.app.id", None) or untyped.session_id)

    def new_session(self, spark: "SparkSession") -> "SparkSession":
        from logdriven_dagster.engine.spark.connect.channels import CauseKeeper, CauseKeepingChannel

        # Same as `newSession` of Spark 4.3 and newer; older versions do not implement it.
        channel = copy.deepcopy(internals.channel_builder(spark))
        channel.set(channel.PARAM_SESSION_ID, None)
        if not isinstance(channel, CauseKeepingChannel):  # a session that another program has made
            channel.add_interceptor(CauseKeeper())
        session_type: Any = type(spark)
        session: SparkSession = session_type(channel, userId=internals.user(spark))
        internals.share_compression(spark, session)
        return patient(session)

    def clone(self, spark: "SparkSession", settings: Mapping[str, str]) -> "SparkSession | None":
        from logdriven_dagster.engine.spark.connect.clones import clone

        def make_session(given: Mapping[str, str]) -> "SparkSession":
            session = self.new_session(spark)
            self.configure(session, given)
            return session

        cloned = clone(spark, settings, make_session)
        return None if cloned is None else patient(cloned)

    def configure(self, session: "SparkSession", settings: Mapping[str, str]) -> None:
        """Apply all settings in one request; the server ignores those that it cannot change.

        `connect` has warned of these.
        """
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
        """Add only the tag: on the server, each operation has its own thread and pool."""
        spark.addTag(mark.tag)

    def cancel(self, spark: "SparkSession", mark: Mark) -> None:
        spark.interruptTag(mark.tag)

    def query_plan(self, spark: "SparkSession", mark: Mark) -> "QueryPlan | None":
        return query_plan(spark, mark.tag)

    def create_read_counter(self, spark: "SparkSession") -> "CountedReads | None":
        from logdriven_dagster.engine.spark.connect.observed_reads import ObservedReads

        return None if reports_plans(spark) else ObservedReads(spark)

    def again(self, known: "DataFrame", spark: "SparkSession") -> "DataFrame | None":  # noqa: ARG002 - as SparkMode has it
        """Return None: the server lists the files for one request only."""
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
        """Return the result; the query is sent to the server with the first request that needs it.

        PySpark would have the server analyze it earlier, since it may be a command.
        """
        from logdriven_dagster.engine.spark.connect.queries import build_watched_query, query_over

        watched = build_watched_query(spark, sql, values, frames)
        if watched is not None:
            return watched
        if is_query(sql):
            return query_over(spark, sql, values, {})
        return spark.sql(sql, args=dict(values))

    def read_observation(self, observation: "Observation") -> Mapping[str, Any]:
        return observation.get

    def estimate_bytes(self, frame: "DataFrame") -> int:
        size = _SIZE.search(internals.explanation(frame))
        return int(float(size[1]) * 1024 ** _UNITS.index(size[2])) if size else _UNKNOWN_SIZE

    def find_attributes(self, frame: "DataFrame") -> frozenset[int]:  # noqa: ARG002 - as SparkMode has it
        """Return no ids: only the server knows them."""
        return frozenset()

    def imports_here(self, spark: "SparkSession") -> bool:  # noqa: ARG002 - as SparkMode has it
        """Return False: Python workers belong to the server, which may run on another machine."""
        return False

    def has_java_class(self, spark: "SparkSession", file: str) -> bool:  # noqa: ARG002 - as SparkMode has it
        """Return False: a server's class path cannot be queried."""
        return False


def refuse_other_zone(spark: "SparkSession", project: Project) -> None:
    """Raise UsageError if the server's JVM and the project's databases have different time zones.

    JDBC drivers interpret times without a zone in the JVM's zone, which no session can change.
    """
    if not any(map(get_url, project.config.connections.values())):
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
    """Return whether two zones have the same UTC offsets under different names: Etc/UTC and UTC."""
    if str(one) == str(other):
        return True
    noons = [datetime(1970, 1, 1, 12) + timedelta(days=n) for n in range(_DAYS)]
    return all(one.utcoffset(noon) == other.utcoffset(noon) for noon in noons)


def patient(session: "SparkSession") -> "SparkSession":
    """Set our retry policy on the session's client and return the session."""
    from pyspark.sql.connect.client.retries import DefaultPolicy

    client: Any = session.client
    policy = DefaultPolicy(max_retries=_TRIES, max_backoff=_LONGEST_PAUSE_MILLISECONDS)
    client.set_retry_policies([policy])
    return session


def require_packages() -> None:
    """Raise UsageError if a package is missing that PySpark needs for Spark Connect."""
    try:
        import_module("pyspark.sql.connect.session")
    except ImportError as error:
        fix = "run `pip install 'logdriven_dagster[connect]'`"
        raise UsageError(f"Spark Connect needs more packages: {error}; {fix}") from None
