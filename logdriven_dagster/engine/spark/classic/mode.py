"""Mode of classic sessions, whose JVM belongs to this process. See `mode.SparkMode`."""

from collections.abc import Callable, Mapping
from functools import lru_cache
from threading import Thread
from typing import TYPE_CHECKING, Any

from logdriven_dagster.config.project import Project
from logdriven_dagster.engine.spark.classic import internals
from logdriven_dagster.engine.spark.classic.java_values import python_value
from logdriven_dagster.engine.spark.classic.metrics import query_plan
from logdriven_dagster.engine.spark.mode import (
    BY_PROCESS,
    BackendCapabilities,
    CountedReads,
    Mark,
    columns_of_ddl,
)
from logdriven_dagster.engine.spark.query_plans import QueryPlan, attributes_in

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Observation, SparkSession


_MODIFIABLE: dict[str, bool] = {}
"""Setting → whether Spark accepts it at run time, which is the same for all sessions."""


class ClassicMode:
    """The mode of a classic session, which is reached through Py4J."""

    title = "Spark"
    capabilities = BackendCapabilities()
    functions = BY_PROCESS
    parse_columns = staticmethod(columns_of_ddl)

    def adopt(self, spark: "SparkSession", project: Project) -> None:  # noqa: ARG002 - as SparkMode has it
        """Set the JVM's time zone, in which JDBC drivers interpret times without a zone."""
        zones = internals.machine().java.util.TimeZone
        zones.setDefault(zones.getTimeZone(str(project.zone)))

    def application_id(self, spark: "SparkSession") -> str:
        return str(spark.sparkContext.applicationId)

    def new_session(self, spark: "SparkSession") -> "SparkSession":
        return spark.newSession()

    def clone(
        self,
        spark: "SparkSession",  # noqa: ARG002 - as SparkMode has it
        settings: Mapping[str, str],  # noqa: ARG002
    ) -> "SparkSession | None":
        """Return None: all sessions of one JVM share its compiled code."""
        return None

    def configure(self, session: "SparkSession", settings: Mapping[str, str]) -> None:
        for name, value in settings.items():
            if name not in _MODIFIABLE:
                _MODIFIABLE[name] = session.conf.isModifiable(name)
            if _MODIFIABLE[name]:
                session.conf.set(name, value)

    def release(self, session: "SparkSession") -> None:
        """Drop the session's views; the session is freed with its last reference.

        `stop` would end the application.
        """
        internals.java_session(session).sessionState().catalog().clearTempTables()

    def thread(self, spark: "SparkSession", work: Callable[[], None]) -> Thread:
        from pyspark import InheritableThread

        return InheritableThread(target=work, daemon=True, session=spark)

    def mark(self, spark: "SparkSession", mark: Mark) -> None:
        context = spark.sparkContext
        context.addJobTag(mark.tag)
        context.setJobDescription(mark.description)
        context.setInterruptOnCancel(True)
        if mark.pool is not None:
            context.setLocalProperty("spark.scheduler.pool", mark.pool)

    def cancel(self, spark: "SparkSession", mark: Mark) -> None:
        spark.sparkContext.cancelJobsWithTag(mark.tag)

    def query_plan(self, spark: "SparkSession", mark: Mark) -> "QueryPlan | None":
        return query_plan(spark, mark)

    def create_read_counter(self, spark: "SparkSession") -> "CountedReads | None":  # noqa: ARG002 - as SparkMode has it
        """Return None: Spark's status store has the plan of each query."""
        return None

    def again(self, known: "DataFrame", spark: "SparkSession") -> "DataFrame | None":
        """Copy the plan with new column identities, as if the files were read again."""
        from pyspark.sql import DataFrame

        plan = internals.java_frame(known).queryExecution().analyzed()
        if plan.nodeName() != "LogicalRelation":
            return None
        rows = _frames(internals.machine()).ofRows(
            internals.java_session(spark), plan.newInstance()
        )
        return DataFrame(rows, spark)

    def input_files(self, frame: "DataFrame") -> list[str]:
        """Return the files that a frame reads, in one call instead of PySpark's call per file."""
        found: list[str] = python_value(internals.java_frame(frame).inputFiles())
        return found

    def name_frame(self, frame: "DataFrame", name: str) -> None:
        frame.createOrReplaceTempView(f"`{name}`")

    def query(
        self,
        spark: "SparkSession",
        sql: str,
        values: Mapping[str, Any],
        frames: "Mapping[str, DataFrame]",  # noqa: ARG002 - as SparkMode has it
    ) -> "DataFrame":
        return spark.sql(sql, args=dict(values)) if values else spark.sql(sql)

    def read_observation(self, observation: "Observation") -> Mapping[str, Any]:
        """Read without the wait of `get`, which never ends if the observation was removed."""
        has_ended = internals.java_observation(observation).future().isCompleted()
        return observation.get if has_ended else {}

    def estimate_bytes(self, frame: "DataFrame") -> int:
        plan = internals.java_frame(frame).queryExecution().optimizedPlan()
        return int(str(plan.stats().sizeInBytes()))

    def find_attributes(self, frame: "DataFrame") -> frozenset[int]:
        leaves = internals.java_frame(frame).queryExecution().analyzed().collectLeaves()
        return attributes_in(str(leaves.mkString(" ")))

    def imports_here(self, spark: "SparkSession") -> bool:
        """Return True unless workers run on a cluster."""
        return str(spark.sparkContext.master).startswith("local")

    def has_java_class(self, spark: "SparkSession", file: str) -> bool:  # noqa: ARG002 - as SparkMode has it
        loader = internals.machine().java.lang.Thread.currentThread().getContextClassLoader()
        return loader.getResource(file) is not None


@lru_cache(maxsize=1)
def _frames(machine: Any) -> Any:
    """Return the companion object of Scala's class; each part of a dotted name is a Java call."""
    return machine.org.apache.spark.sql.classic.Dataset
