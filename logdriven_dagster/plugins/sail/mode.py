"""Mode of Sail sessions: Spark Connect without the features that Sail's server lacks."""

from collections.abc import Callable, Mapping
from threading import Thread
from typing import TYPE_CHECKING, Any

from logdriven_dagster.config.project import Project
from logdriven_dagster.engine.spark.connect import internals
from logdriven_dagster.engine.spark.connect.channels import CauseKeepingChannel
from logdriven_dagster.engine.spark.connect.mode import ConnectMode
from logdriven_dagster.engine.spark.mode import BackendCapabilities, CountedReads, Mark
from logdriven_dagster.plugins.sail.found_files import files_of_plan
from logdriven_dagster.plugins.sail.queries import parse_supported_columns, sail_query
from logdriven_dagster.plugins.sail.reads import SailReads
from logdriven_dagster.plugins.sail.server import SailServer

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from logdriven_dagster.engine.spark.query_plans import QueryPlan


_TRIES, _LONGEST_PAUSE_MILLISECONDS = 3, 300


class SailChannel(CauseKeepingChannel):
    """Channel to a Sail server, which identifies its sessions as Sail's."""

    def __init__(self, server: SailServer) -> None:
        super().__init__(server.url)
        self.server_name, self.mode = server.name, SailMode()


def with_short_retries(session: "SparkSession") -> "SparkSession":
    """Set short retries for a server on this machine, and return the session.

    Reattachable execution is disabled: no client reattaches to a query after a local connection
    broke, and each query would need an additional request to release it.
    """
    from pyspark.sql.connect.client.retries import DefaultPolicy

    client: Any = session.client
    policy = DefaultPolicy(max_retries=_TRIES, max_backoff=_LONGEST_PAUSE_MILLISECONDS)
    client.set_retry_policies([policy])
    client.disable_reattachable_execute()
    return session


class SailMode(ConnectMode):
    """The mode of a Sail session, which refuses queries that are not supported on Sail."""

    title = "Sail"
    capabilities = BackendCapabilities(
        lists_files_eagerly=False,
        can_partition_by_string=False,
        has_input_file_name=False,
        casts_on_read=False,
        reads_file_sink_log=False,
    )
    functions = "pyspark.sql.connect.functions"
    parse_columns = staticmethod(parse_supported_columns)

    def adopt(self, spark: "SparkSession", project: Project) -> None:
        """Accept the session: the project was checked for Sail when it was loaded."""
        _ = project
        with_short_retries(spark)

    def new_session(self, spark: "SparkSession") -> "SparkSession":
        return with_short_retries(super().new_session(spark))

    def clone(
        self,
        spark: "SparkSession",  # noqa: ARG002 - as SparkMode has it
        settings: Mapping[str, str],  # noqa: ARG002
    ) -> "SparkSession | None":
        """Return None: Sail compiles no code."""
        return None

    def thread(self, spark: "SparkSession", work: Callable[[], None]) -> Thread:
        """Return a plain thread: PySpark's would use the JVM of the process, if there is one."""
        _ = spark
        return Thread(target=work, daemon=True)

    def application_id(self, spark: "SparkSession") -> str:
        """Return engine, version and process id: Sail has no names for applications."""
        return str(internals.channel_builder(spark).server_name)

    def query_plan(self, spark: "SparkSession", mark: Mark) -> "QueryPlan | None":  # noqa: ARG002 - as SparkMode has it
        return None

    def create_read_counter(self, spark: "SparkSession") -> CountedReads:
        return SailReads(spark)

    def name_frame(self, frame: "DataFrame", name: str) -> None:
        """Do nothing: a query is sent together with the frames that it names."""

    def query(
        self,
        spark: "SparkSession",
        sql: str,
        values: Mapping[str, Any],
        frames: "Mapping[str, DataFrame]",
    ) -> "DataFrame":
        _ = values  # proven queries have no parameters
        return sail_query(spark, sql, frames)

    def estimate_bytes(self, frame: "DataFrame") -> int:
        """Return the size of the files that the frame reads, which are on this machine."""
        return sum(file.stat().st_size for file in files_of_plan(frame))
