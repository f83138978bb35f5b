"""Exact ranges of Kafka offsets as a Spark data source, read by librdkafka in the executors.

A plan, the user interface and error messages show only its name and its options: the offsets and
how they are split. The settings of the connection, with their secrets, are part of the pickled
class instead.
"""

import time
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition

from logdriven_dagster.errors import TerminalStepError
from logdriven_dagster.plugins.kafka.clients import Complaints, kafka_error, open_consumer
from logdriven_dagster.plugins.kafka.offsets import Range, ranges, tasks

if TYPE_CHECKING:
    from confluent_kafka import Consumer
    from pyarrow import RecordBatch, Schema
    from pyspark.sql.types import StructType

COLUMNS = (
    "key BINARY, value BINARY, topic STRING, partition INT, offset BIGINT, timestamp TIMESTAMP, "
    "timestampType INT, headers ARRAY<STRUCT<key: STRING, value: BINARY>>"
)
"""The columns of Spark's own connector."""

_AT_ONCE = 10_000
_WAIT_SECONDS = 0.1


class KafkaMessages(DataSource):
    """A data source of messages, one connection each; see `apply_settings`.

    Options: `low` and `high`, offsets as JSON; `per_task` messages; `patience` in seconds.
    """

    settings: ClassVar[Mapping[str, str]] = {}
    """Settings of librdkafka; see `apply_settings`."""

    def schema(self) -> str:
        return COLUMNS

    def reader(self, schema: "StructType") -> "MessageReader":  # noqa: ARG002 - Spark names it
        return MessageReader(self.settings, dict(self.options))


def with_settings(given: Mapping[str, str], called: str) -> type[KafkaMessages]:
    """Return the data source of one connection, under the name that Spark registers.

    The class is not a member of a module, so it is pickled by value, with its settings.
    """

    class ConnectedMessages(KafkaMessages):
        settings = given

        @classmethod
        def name(cls) -> str:
            return called

    return ConnectedMessages


class MessageReader(DataSourceReader):
    """Reader of each range from its first offset to its last one; it fails if it cannot."""

    def __init__(self, settings: Mapping[str, str], options: Mapping[str, str]) -> None:
        self._settings = settings
        self._ranges = ranges(options["low"], options["high"])
        self._per_task = int(options["per_task"])
        self._patience = float(options["patience"])

    def partitions(self) -> list[InputPartition]:
        return [InputPartition(part) for part in tasks(self._ranges, self._per_task)]

    def read(self, partition: InputPartition) -> "Iterator[RecordBatch]":
        parts: tuple[Range, ...] = partition.value or ()  # Spark calls this even without a task
        if not parts:
            return
        complaints = Complaints()
        consumer = open_consumer(self._settings, complaints)
        try:
            for part in parts:
                yield from _batches(consumer, part, self._patience, complaints)
        finally:
            consumer.close()


def _batches(
    consumer: "Consumer", part: Range, patience: float, complaints: Complaints
) -> "Iterator[RecordBatch]":
    """Yield the messages of a range of offsets, in batches.

    Compaction and the records that end transactions leave gaps between offsets, so the end is
    detected by the consumer's position, not by a number of messages.
    """
    from confluent_kafka import TopicPartition

    consumer.assign([TopicPartition(part.topic, part.partition, part.first)])
    position, moved = part.first, time.monotonic()
    while position < part.end:
        before, wanted = position, []
        messages: list[Any] = consumer.consume(min(_AT_ONCE, part.end - before), _WAIT_SECONDS)
        for message in messages:
            if message.error() is None and message.offset() < part.end:
                wanted.append(message)
            position = max(position, _position_after(message, part, complaints))
        if wanted:
            yield _batch(wanted, part)
        if position > before:
            moved = time.monotonic()
        elif time.monotonic() - moved > patience:
            raise complaints.silence(
                f"Kafka sent nothing for {patience:g} s, {_rest(part, before)}"
            )


def _position_after(message: Any, part: Range, complaints: Complaints) -> int:
    """Return the next offset; raise the error of a message that reports one."""
    error = message.error()
    if error is None:
        return int(message.offset()) + 1
    match kafka_error(error).name():
        case "_PARTITION_EOF":
            return int(message.offset())
        case (
            "GROUP_AUTHORIZATION_FAILED"
        ):  # the group that this consumer must name but does not join
            return part.first
        case "_AUTO_OFFSET_RESET":
            raise TerminalStepError(
                f"{part}: they were deleted before they were read ({error.str()}); run the "
                "table again to see the missing offsets"
            )
        case _:
            raise complaints.failure(error, f"Kafka, {part}")


def _rest(part: Range, position: int) -> str:
    return str(Range(part.topic, part.partition, position, part.end))


def _batch(messages: list[Any], part: Range) -> "RecordBatch":
    import pyarrow as pa

    count, times = len(messages), [message.timestamp() for message in messages]
    columns: list[list[Any]] = [
        [message.key() for message in messages],
        [message.value() for message in messages],
        [part.topic] * count,
        [part.partition] * count,
        [message.offset() for message in messages],
        [1000 * milliseconds if kind else None for kind, milliseconds in times],
        # Kafka's Java clients count these from 0, and no time as -1.
        [kind - 1 for kind, _ in times],
        [_headers(message) for message in messages],
    ]
    schema = _schema()
    arrays = [pa.array(v, field.type) for v, field in zip(columns, schema, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _headers(message: Any) -> list[dict[str, Any]] | None:
    given = message.headers()
    return [{"key": key, "value": value} for key, value in given] if given else None


def _schema() -> "Schema":
    import pyarrow as pa

    header = pa.struct([("key", pa.string()), ("value", pa.binary())])
    return pa.schema(
        [
            ("key", pa.binary()),
            ("value", pa.binary()),
            ("topic", pa.string()),
            ("partition", pa.int32()),
            ("offset", pa.int64()),
            ("timestamp", pa.timestamp("us", tz="UTC")),
            ("timestampType", pa.int32()),
            ("headers", pa.list_(pa.field("element", header))),
        ]
    )
