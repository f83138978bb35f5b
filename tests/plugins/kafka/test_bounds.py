"""Asking a cluster how far it goes, over Kafka's protocol. Checklist S16–S18."""

import pytest
from confluent_kafka import Producer

from logdriven_dagster.errors import TerminalStepError, TransientStepError
from logdriven_dagster.plugins.kafka.offsets import Bounded, parse, read_range
from tests.patience import within
from tests.plugins.kafka.peer import Peer, running_peer


def bounds(peer: Peer, topic: str, low: str | None, *rest: object) -> Bounded:
    return read_range({"bootstrap.servers": peer.servers}, [topic], low, *rest)


def test_earliest_latest_and_explicit_offsets(peer: Peer, topic: str):
    peer.send(topic, *"abc")
    whole = bounds(peer, topic, "earliest")
    assert (parse(whole.low), parse(whole.high)) == ({(topic, 0): 0}, {(topic, 0): 3})
    assert (whole.messages, whole.has_more) == (3, False)
    assert bounds(peer, topic, None) == whole
    latest = bounds(peer, topic, "latest")
    assert latest.low == latest.high == whole.high
    assert bounds(peer, topic, f'{{"{topic}":{{"0":2}}}}').messages == 1


def test_the_next_slice_begins_where_this_one_ends(peer: Peer):
    topic = peer.create("carried", 2)
    peer.send(topic, *"abc", partition=0)
    first = bounds(peer, topic, "earliest")
    peer.send(topic, *"de", partition=1)
    second = bounds(peer, topic, first.high)
    assert second.low == first.high
    assert parse(second.high) == {(topic, 0): 3, (topic, 1): 2}


def test_a_partition_that_the_slice_before_did_not_know(peer: Peer):
    topic = peer.create("grown", 2)
    peer.send(topic, *"abc", partition=1)
    peer.delete_records(topic, 1, 1)
    slice_ = bounds(peer, topic, f'{{"{topic}":{{"0":0}}}}')
    assert parse(slice_.low) == {(topic, 0): 0, (topic, 1): 1}


def test_several_topics(peer: Peer, topic: str):
    other = peer.create("another")
    peer.send(other, "x")
    slice_ = read_range({"bootstrap.servers": peer.servers}, [topic, other], None)
    assert parse(slice_.high) == {(other, 0): 1, (topic, 0): 0}


def test_an_empty_topic(peer: Peer, topic: str):
    slice_ = bounds(peer, topic, "earliest")
    assert slice_.low == slice_.high == f'{{"{topic}":{{"0":0}}}}'


def test_a_limit_leaves_the_rest_for_later(peer: Peer):
    topic = peer.create("limited", 2)
    peer.send(topic, *"abcdef", partition=0)
    peer.send(topic, *"ghi", partition=1)
    first = bounds(peer, topic, "earliest", 3)
    assert parse(first.high) == {(topic, 0): 2, (topic, 1): 1}
    assert (first.messages, first.has_more) == (3, True)
    assert not bounds(peer, topic, first.high, 6).has_more


def test_an_unknown_topic_is_named_and_not_made(peer: Peer):
    for _ in range(2):
        with pytest.raises(TerminalStepError, match="topic nowhere does not exist in Kafka"):
            bounds(peer, "nowhere", "earliest")


def test_messages_that_retention_removed_unread(peer: Peer, topic: str):
    peer.send(topic, *"abcde")
    low = bounds(peer, topic, "earliest", 1).high
    peer.delete_records(topic, 0, 3)
    with pytest.raises(TerminalStepError, match="offsets 1 to 2 were deleted"):
        bounds(peer, topic, low)
    reported = bounds(peer, topic, low, None, "report")
    assert parse(reported.low) == {(topic, 0): 3}
    assert "offsets 1 to 2 were deleted" in reported.notes


def test_a_topic_that_was_created_again(peer: Peer, topic: str):
    peer.send(topic, *"abcde")
    low = bounds(peer, topic, "earliest").high
    peer.delete(topic)
    with pytest.raises(TerminalStepError, match=f"topic {topic} does not exist in Kafka"):
        bounds(peer, topic, low)
    peer.create(topic)
    peer.send(topic, "new")
    with pytest.raises(TerminalStepError, match="offset 5 is after its end 1"):
        bounds(peer, topic, low)
    assert bounds(peer, topic, low, None, "report").messages == 1


def test_the_records_that_end_transactions_lie_within_the_slice(peer: Peer, topic: str):
    producer = Producer({"bootstrap.servers": peer.servers, "transactional.id": topic})
    producer.init_transactions(10)
    producer.begin_transaction()
    producer.produce(topic, b"x")
    producer.commit_transaction(10)
    assert bounds(peer, topic, "earliest").messages == 2


@pytest.mark.usefixtures("slow")
def test_a_missing_cluster_is_reported_within_ten_seconds():
    with running_peer() as gone:
        gone.kill()
        with within(10), pytest.raises(TransientStepError, match="Connection refused"):
            bounds(gone, "t", "earliest")


def test_a_setting_that_does_not_exist_is_the_users_mistake(peer: Peer):
    with pytest.raises(TerminalStepError, match=r"sasl\.pasword"):
        read_range({"bootstrap.servers": peer.servers, "sasl.pasword": "x"}, ["t"], None)
