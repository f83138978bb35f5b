"""The Kafka protocol peer of the tests: a mock cluster that can also be made to fail."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from confluent_kafka import Producer

from logdriven_dagster.examples.mock_kafka import MockKafka, running


class Peer(MockKafka):
    """The running cluster, seen from a test."""

    def delete(self, topic: str) -> str:
        return self._ask("delete", topic)

    def delete_records(self, topic: str, partition: int, before: int) -> str:
        """Remove the messages below an offset, as retention does."""
        return self._ask("delete_records", topic, partition, before)

    def fail(self, request: int, error: int) -> None:
        """Answer the next request of a kind (Kafka's API key) with an error (Kafka's code)."""
        self._ask("fail", "", request, error)

    def send(self, topic: str, *values: str, partition: int = 0, **fields: Any) -> None:
        """Produce messages, outside of any transaction."""
        producer = Producer({"bootstrap.servers": self.servers})
        for value in values:
            producer.produce(topic, value.encode(), partition=partition, **fields)
        assert producer.flush(10) == 0

    def kill(self) -> None:
        """End the cluster at once; its port refuses connections from now on."""
        self.process.kill()
        self.process.wait()


@contextmanager
def running_peer() -> Iterator[Peer]:
    """A cluster of one broker that ends with the block."""
    with running(Peer) as peer:
        yield peer
