"""Kafka topics as sources and targets, and connections to clusters."""

from collections.abc import Iterator, Mapping
from typing import Literal

from pydantic import Field, model_validator
from typing_extensions import Self

from logdriven_dagster.config.models.fields import Option
from logdriven_dagster.config.models.types.connections import ConnectionType
from logdriven_dagster.config.models.types.parts import Connected
from logdriven_dagster.config.models.types.sources import Source
from logdriven_dagster.config.models.types.targets import Target

_TRANSIENT_ERRORS = "logdriven_dagster.plugins.kafka.errors:is_transient"


class KafkaConnection(ConnectionType):
    """A Kafka cluster by librdkafka's settings."""

    mark = "kafka"

    kafka: dict[str, Option] = Field(
        description="a Kafka cluster instead of a database: librdkafka's settings, "
        "bootstrap.servers among them",
        examples=[{"bootstrap.servers": "host:9092"}],
    )
    type: Literal["kafka"] = Field(
        "kafka", description="kind of server; by default derived from the field that is given"
    )

    @model_validator(mode="after")
    def _names_servers(self) -> Self:
        if "bootstrap.servers" not in self.kafka:
            raise ValueError("kafka: missing; add `bootstrap.servers: host:9092`")
        return self

    @property
    def leads_to(self) -> str:
        return "Kafka"

    def option_groups(self) -> Iterator[tuple[tuple[str, ...], Mapping[str, Option]]]:
        yield ("kafka",), self.kafka


class KafkaSource(Source):
    """Topics of a Kafka cluster: key, value, topic, partition, offset, timestamp, headers."""

    reader = "logdriven_dagster.plugins.kafka.reader:KafkaReader"
    transient_errors = _TRANSIENT_ERRORS
    has_offsets = True

    type: Literal["kafka"]
    connection: str = Field(
        description="the name of a Kafka connection of the project", examples=["events"]
    )
    topic: str | tuple[str, ...] = Field(
        description="one topic, or a list of them", examples=["clicks"]
    )
    on_gap: Literal["fail", "report"] = Field(
        "fail",
        description="the action if messages were deleted before they were read, or their topic "
        "was recreated: fail without reading, or read the remaining messages and "
        "report the lost ones",
    )

    @property
    def topics(self) -> tuple[str, ...]:
        return (self.topic,) if isinstance(self.topic, str) else self.topic

    @property
    def connected(self) -> Connected:
        return Connected(self.connection, "Kafka")

    @property
    def place(self) -> str:
        return f"{self.connection}:{','.join(self.topics)}"

    def uses(self) -> Iterator[tuple[str, str]]:
        yield "connection", self.connection
        yield from (("topic", topic) for topic in self.topics)

    def only_of_slices(self) -> Iterator[str]:
        yield "a source of type kafka needs incremental_type kafka_offset"
        yield from super().only_of_slices()


class KafkaTarget(Target):
    """A topic; one Kafka transaction sends a window. Columns key, value, headers as in Spark."""

    store = "logdriven_dagster.plugins.kafka.topic:KafkaTopic"
    contents = "logdriven_dagster.plugins.kafka.topic:KafkaContents"
    transient_errors = _TRANSIENT_ERRORS

    type: Literal["kafka"]
    connection: str = Field(
        description="the name of a Kafka connection of the project", examples=["events"]
    )
    topic: str = Field(description="the topic to write to", examples=["sales"])
    mode: Literal["append"] = Field("append", description="a topic can only be appended to")

    @property
    def connected(self) -> Connected:
        return Connected(self.connection, "Kafka")

    def place(self, table: str) -> str:
        # Topics have several writers, so two tables with one topic do not conflict.
        return f"kafka {self.connection}.{self.topic} of {table}"

    def uses(self, table: str) -> Iterator[tuple[str, str]]:
        _ = table
        yield "connection", self.connection
        yield "topic", self.topic

    @property
    def source_place(self) -> str:
        return f"{self.connection}:{self.topic}"

    @property
    def replaces_rows(self) -> bool:
        return False

    @property
    def stretch_obstacle(self) -> str:
        return (
            "messages cannot be withdrawn: each window is sent and finished in the log "
            "before the next one is sent"
        )
