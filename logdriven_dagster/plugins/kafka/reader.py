"""Sources of type kafka: exactly the offsets of a window, with the columns of Spark's connector.

That connector is used if its Java classes are on the class path and all settings of the connection
have a counterpart there; otherwise a Python data source reads with librdkafka. Both read only
committed messages, and both accept the options in `_OPTIONS`.
"""

import json
import uuid
from collections.abc import Mapping
from importlib import import_module
from typing import TYPE_CHECKING

from logdriven_dagster.config.project import Project
from logdriven_dagster.engine.sources.readers import Ask, Frontier, Reader, Reading
from logdriven_dagster.engine.spark.modes import mode_of
from logdriven_dagster.engine.spark.settings import option_texts
from logdriven_dagster.errors import TerminalStepError
from logdriven_dagster.model.runs import WindowRun
from logdriven_dagster.model.windows import Slice
from logdriven_dagster.plugins.kafka.models import KafkaSource
from logdriven_dagster.plugins.kafka.offsets import parse, ranges, read_range
from logdriven_dagster.plugins.kafka.settings import client_settings

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


_OPTIONS = {"maxRecordsPerPartition": "1000000", "kafkaConsumer.pollTimeoutMs": "60000"}
"""The options of Spark's connector that both readers support: the messages per task, and the time
without messages after which it fails.
"""

_CONNECTOR = "org/apache/spark/sql/kafka010/KafkaSourceProvider.class"

_SAME_IN_JAVA = frozenset(
    {
        "bootstrap.servers",
        "client.id",
        "client.rack",
        "fetch.max.bytes",
        "fetch.min.bytes",
        "isolation.level",
        "max.partition.fetch.bytes",
        "receive.buffer.bytes",
        "request.timeout.ms",
        "security.protocol",
        "ssl.endpoint.identification.algorithm",
    }
)
_IN_JAVA = {"metadata.broker.list": "bootstrap.servers", "sasl.mechanisms": "sasl.mechanism"}
_LOGIN = {
    "PLAIN": "org.apache.kafka.common.security.plain.PlainLoginModule",
    "SCRAM-SHA-256": "org.apache.kafka.common.security.scram.ScramLoginModule",
    "SCRAM-SHA-512": "org.apache.kafka.common.security.scram.ScramLoginModule",
}


class KafkaReader(Reader):
    """Reader of Kafka topics."""

    def whole(self, reading: Reading, source: KafkaSource) -> "DataFrame":
        return _messages(reading, source)

    def without_rows(self, reading: Reading, source: KafkaSource) -> "DataFrame":
        from logdriven_dagster.plugins.kafka.messages import COLUMNS

        _ = source
        return reading.spark.createDataFrame([], COLUMNS)

    def frontier(
        self,
        project: Project,
        run: WindowRun,
        source: KafkaSource,
        reading: Ask,
    ) -> Frontier:
        """Return the frontier of the topics, without Spark."""
        _ = reading
        assert isinstance(run.window, Slice)
        limit = project.table(run.table).max_offsets_per_window
        settings = client_settings(project, source.connection)
        found = read_range(settings, source.topics, run.window.low, limit, source.on_gap)
        return Frontier(run.window.up_to(found.high, found.low), found.has_more, found.notes)


def _messages(reading: Reading, source: KafkaSource) -> "DataFrame":
    """Return the messages of the window, an offset window with both ends known.

    Reading it again returns the same messages, regardless of newer ones.
    """
    from pyspark import cloudpickle

    from logdriven_dagster.plugins.kafka.messages import with_settings

    low, high = _ends(reading.run.window)
    options = _options(source)
    settings = client_settings(reading.project, source.connection)
    java = java_settings(settings) if _has_connector(reading.spark) else None
    if java is not None:
        return _by_connector(reading.spark, java, low, high, options)
    # A name can be registered once, and a frame resolves its source when it is created.
    name = f"kafka_{source.connection}_{uuid.uuid4().hex[:8]}"
    if not mode_of(reading.spark).imports_here(reading.spark):
        # The workers' Python needs librdkafka, but none of our modules.
        package = import_module(__name__.partition(".")[0])
        cloudpickle.register_pickle_by_value(package)  # type: ignore[no-untyped-call]
    reading.spark.dataSource.register(with_settings(settings, name))
    return _by_librdkafka(reading.spark, name, low, high, options)


def _ends(window: object) -> tuple[str, str]:
    if not isinstance(window, Slice) or window.high is None:
        raise TerminalStepError(
            f"a source of type kafka needs an offset range with both ends, not {window}"
        )
    ranges(window.low, window.high)  # refuses incomplete bounds
    return window.low, window.high


def _options(source: KafkaSource) -> dict[str, str]:
    given = option_texts(source.options)
    if unknown := sorted(given.keys() - _OPTIONS.keys()):
        raise TerminalStepError(
            f"source.options: a source of type kafka allows {' and '.join(_OPTIONS)}, "
            f"not {', '.join(unknown)}; set settings of the client in the connection"
        )
    if wrong := [f"{name}: {text}" for name, text in given.items() if not text.isdigit()]:
        raise TerminalStepError(f"source.options: expected whole numbers, not {', '.join(wrong)}")
    return _OPTIONS | given


def _by_librdkafka(
    spark: "SparkSession", name: str, low: str, high: str, options: dict[str, str]
) -> "DataFrame":
    return (
        spark.read.format(name)
        .option("low", low)
        .option("high", high)
        .option("per_task", options["maxRecordsPerPartition"])
        .option("patience", str(int(options["kafkaConsumer.pollTimeoutMs"]) / 1000))
        .load()
    )


def _by_connector(
    spark: "SparkSession", settings: Mapping[str, str], low: str, high: str, options: dict[str, str]
) -> "DataFrame":
    partitions: dict[str, list[int]] = {}
    for topic, number in sorted(parse(high)):
        partitions.setdefault(topic, []).append(number)
    return (
        spark.read.format("kafka")
        .options(**{f"kafka.{name}": value for name, value in settings.items()}, **options)
        # Spark refuses offsets of a topic that lack one of its partitions, so they are named.
        .option("assign", json.dumps(partitions))
        .option("startingOffsets", low)
        .option("endingOffsets", high)
        .option("includeHeaders", "true")
        .option("failOnDataLoss", "true")
        .load()
    )


def java_settings(settings: Mapping[str, str]) -> dict[str, str] | None:
    """Return the settings as Kafka's Java client spells them; None if one has no counterpart."""
    java, login = {"isolation.level": "read_committed"}, dict[str, str]()
    for name, value in settings.items():
        if name in ("sasl.username", "sasl.password"):
            login[name] = value
        elif name in _SAME_IN_JAVA or name in _IN_JAVA or name == "sasl.mechanism":
            java[_IN_JAVA.get(name, name)] = value
        else:
            return None
    if "security.protocol" in java:
        java["security.protocol"] = java["security.protocol"].upper()
    if login:
        module = _LOGIN.get(java.get("sasl.mechanism", ""))
        if module is None:
            return None
        java["sasl.jaas.config"] = f"{module} required {_credentials(login)};"
    return java


def _credentials(login: Mapping[str, str]) -> str:
    return " ".join(
        f'{name.removeprefix("sasl.")}="{_escape(value)}"' for name, value in login.items()
    )


def _escape(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"')


def _has_connector(spark: "SparkSession") -> bool:
    return mode_of(spark).has_java_class(spark, _CONNECTOR)
