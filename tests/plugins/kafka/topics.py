"""What stands in the topics of a test."""

from typing import Any

from confluent_kafka import Consumer, TopicPartition

from tests.plugins.kafka.peer import Peer


def messages(peer: Peer, topic: str) -> list[Any]:
    """All that a topic of one partition holds, as a consumer of committed messages sees it."""
    settings = {"bootstrap.servers": peer.servers, "group.id": "test", "enable.partition.eof": True}
    consumer = Consumer(settings)
    consumer.assign([TopicPartition(topic, 0, 0)])
    found: list[Any] = []
    while not found or found[-1].error() is None:
        found += consumer.consume(1, 10)
    consumer.close()
    return found[:-1]
