"""A window of rows as one transaction of messages."""

import sys
from collections.abc import Callable
from typing import Any

import pytest
from confluent_kafka import Consumer, TopicPartition

from logdriven_dagster.config.locations import as_path
from logdriven_dagster.engine.targets.garbage import find_garbage
from logdriven_dagster.errors import (
    AttemptLostError,
    TerminalStepError,
    TransientStepError,
)
from logdriven_dagster.model.attempts import Counts
from logdriven_dagster.plugins.kafka import topic as kafka_target
from logdriven_dagster.testing.conformance import WRITER, WindowConformance, WindowScene
from tests.builders import day
from tests.engine.laboratory import Lab, held
from tests.plugins.kafka.peer import Peer, running_peer
from tests.plugins.kafka.topics import messages

ROWS = "SELECT CAST(id AS STRING) AS key, concat('v', id) AS value FROM range(3)"
END_TXN, PRODUCER_FENCED, INVALID_PRODUCER_EPOCH, COORDINATOR_LOADING = 26, 90, 47, 14


def table(lab: Lab, topic: str, sql: str = ROWS, **target: Any) -> str:
    to = {"type": "kafka", "connection": "broker", "topic": topic, **target}
    return lab.table("ods.t", {"sql": sql, "target": to})


def end(peer: Peer, topic: str) -> int:
    consumer = Consumer({"bootstrap.servers": peer.servers, "group.id": "test"})
    found = consumer.get_watermark_offsets(TopicPartition(topic, 0), 10)
    consumer.close()
    return int(found[1])


def publish(lab: Lab, verify: Callable[[], None] = held) -> Any:
    with lab.session("ods.t", day(1)) as session:
        session.stage(lab.project.table("ods.t").steps[0])
        (published,) = session.publish("step_1", verify)
        return published


class TestKafka(WindowConformance):
    """The conformance tests of a target that cannot replace rows, and whose fence is the lease.

    Tests of this module state what replaces each of the others.
    """

    test_a_rerun_replaces_the_rows_of_its_window = None  # type: ignore[assignment]
    test_publishing_twice_leaves_the_same_rows = None  # type: ignore[assignment]
    test_rows_of_a_dead_attempt_are_not_published_twice = None  # type: ignore[assignment]
    test_a_fence_leaves_the_published_rows = None  # type: ignore[assignment]
    test_an_attempt_that_was_fenced_off_cannot_publish = None  # type: ignore[assignment]
    test_an_attempt_that_was_fenced_off_cannot_fence = None  # type: ignore[assignment]

    @pytest.fixture
    def scene(self, lab: Lab, peer: Peer, topic: str) -> WindowScene:
        to = {"type": "kafka", "connection": "broker", "topic": topic}
        step = {"sql": "SELECT '${writer}' AS value", "target": to}
        lab.table("ods.t", step, variables={WRITER: ""})
        return WindowScene(
            project=lab.project,
            start=lambda: lab.engine,
            writers=lambda: [message.value().decode() for message in messages(peer, topic)],
        )


def test_without_its_library_it_names_the_command(
    lab: Lab, topic: str, monkeypatch: pytest.MonkeyPatch
):
    table(lab, topic)
    monkeypatch.setitem(sys.modules, "confluent_kafka", None)
    with pytest.raises(TerminalStepError, match=r"pip install 'logdriven_dagster\[kafka\]'"):
        publish(lab)


class Recording:
    """A producer that notes in which order it is asked for what."""

    def __init__(self, producer: Any, calls: list[str]) -> None:
        self._producer, self._calls = producer, calls

    def __getattr__(self, name: str) -> Any:
        if name not in ("produce", "poll"):
            self._calls.append(name)
        return getattr(self._producer, name)


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    noted: list[str] = []
    opened = kafka_target.open_producer
    monkeypatch.setattr(
        kafka_target, "open_producer", lambda *args: Recording(opened(*args), noted)
    )
    return noted


def test_a_window_is_one_transaction(lab: Lab, peer: Peer, topic: str):
    table(lab, topic)
    ran = lab.run("ods.t", day(1))
    assert ran.counts == Counts(3, 3, 3, 0)
    assert (ran.published[0].target, ran.published[0].rows) == (topic, 3)
    found = messages(peer, topic)
    assert [(m.key(), m.value()) for m in found] == [(b"0", b"v0"), (b"1", b"v1"), (b"2", b"v2")]
    assert end(peer, topic) == 4  # one record ends one transaction
    assert not list((lab.warehouse / "_staging" / "ods.t").iterdir())


def test_headers_name_table_and_window_of_a_message(lab: Lab, peer: Peer, topic: str):
    own = "array(named_struct('key', 'h', 'value', CAST('x' AS BINARY))) AS headers"
    table(lab, topic, f"SELECT CAST('v' AS BINARY) AS Value, {own}")
    lab.run("ods.t", day(1), job_id=77)
    (message,) = messages(peer, topic)
    assert message.key() is None
    assert message.headers() == [
        ("h", b"x"),
        ("logdriven-table", b"ods.t"),
        ("logdriven-window", b"20220101000000"),
        ("logdriven-job", b"77"),
    ]


def test_a_null_value_is_a_message_that_deletes(lab: Lab, peer: Peer, topic: str):
    table(lab, topic, "SELECT 'k' AS key, CAST(NULL AS STRING) AS value")
    lab.run("ods.t", day(1))
    assert [(m.key(), m.value()) for m in messages(peer, topic)] == [(b"k", None)]


def test_a_window_without_rows_sends_nothing(lab: Lab, peer: Peer, topic: str):
    table(lab, topic, f"{ROWS} WHERE id > 9")
    assert lab.run("ods.t", day(1)).published[0].rows == 0
    assert end(peer, topic) == 0


def test_more_messages_than_librdkafka_queues_at_once(lab: Lab, peer: Peer, topic: str):
    many = ROWS.replace("range(3)", "range(20000)")
    table(lab, topic, many, options={"queue.buffering.max.messages": 500})
    lab.run("ods.t", day(1))
    assert end(peer, topic) == 20_001


@pytest.mark.parametrize(
    "columns",
    ["1 AS value", "'k' AS key", "'v' AS value, 't' AS topic", "'v' AS value, 'h' AS headers"],
)
def test_columns_that_no_message_has_are_refused(lab: Lab, peer: Peer, topic: str, columns: str):
    table(lab, topic, f"SELECT {columns}")
    with pytest.raises(TerminalStepError, match="a message has value, and may have key"):
        lab.run("ods.t", day(1))


def test_sending_again_sends_twice(lab: Lab, peer: Peer, topic: str):
    """What docs/plugins/kafka.md says: a topic cannot take messages back."""
    table(lab, topic)
    publish(lab)
    publish(lab)
    assert len(messages(peer, topic)) == 6


def test_the_lease_is_looked_at_right_before_the_commit(lab: Lab, topic: str, calls: list[str]):
    table(lab, topic)
    publish(lab, lambda: calls.append("verify"))
    begun = ["verify", "init_transactions", "begin_transaction", "flush"]
    assert calls == [*begun, "verify", "commit_transaction"]


def test_a_runner_that_lost_its_window_commits_nothing(lab: Lab, topic: str, calls: list[str]):
    def lost() -> None:
        if "flush" in calls:
            raise AttemptLostError("the lease is somebody else's")

    table(lab, topic)
    with pytest.raises(AttemptLostError):
        publish(lab, lost)
    assert "commit_transaction" not in calls
    assert calls[-1] == "abort_transaction"


def test_a_runner_that_lost_its_window_blocks_no_other(lab: Lab, topic: str, calls: list[str]):
    def lost() -> None:
        raise AttemptLostError("the lease is somebody else's")

    table(lab, topic)
    with pytest.raises(AttemptLostError):
        publish(lab, lost)
    assert calls == []


@pytest.mark.parametrize("error", [PRODUCER_FENCED, INVALID_PRODUCER_EPOCH])
def test_kafka_refuses_the_commit_of_a_zombie(
    lab: Lab, peer: Peer, topic: str, calls: list[str], error: int
):
    def lost_at_last() -> None:
        if "commit_transaction" in calls:
            raise AttemptLostError("the lease is somebody else's")

    table(lab, topic)
    peer.fail(END_TXN, error)
    with pytest.raises(AttemptLostError):
        publish(lab, lost_at_last)


def test_a_zombie_that_shuts_out_the_holder_of_the_lease(lab: Lab, peer: Peer, topic: str):
    table(lab, topic)
    peer.fail(END_TXN, PRODUCER_FENCED)
    with pytest.raises(TransientStepError, match="without the lease"):
        publish(lab)


def test_a_coordinator_that_is_not_ready_is_asked_again(lab: Lab, peer: Peer, topic: str):
    table(lab, topic)
    peer.fail(END_TXN, COORDINATOR_LOADING)
    assert publish(lab).rows == 3
    assert end(peer, topic) == 4


def test_fencing_takes_the_transactional_id_of_the_window(lab: Lab, topic: str, calls: list[str]):
    table(lab, topic)
    with lab.session("ods.t", day(1)) as session:
        session.fence()
    assert calls == ["init_transactions"]


def test_staged_rows_are_there_for_checks_and_successors(lab: Lab, peer: Peer, topic: str):
    table(lab, topic)
    step = lab.project.table("ods.t").steps[0]
    with lab.session("ods.t", day(1)) as dead:
        (staged,) = dead.stage(step)
    with lab.session("ods.t", day(1)) as session:
        (restored,) = session.restore(step, [str(staged.state)])
        assert restored.counts.target == 3
        session.publish("step_1", held)
    assert len(messages(peer, topic)) == 3


def test_a_topic_is_not_read_by_the_tables_name(lab: Lab, topic: str):
    table(lab, topic)
    with pytest.raises(TerminalStepError, match="cannot be read by the table's name"):
        lab.engine.read("ods.t")


@pytest.mark.usefixtures("long")
def test_a_cluster_that_is_gone(lab: Lab, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(kafka_target, "_PATIENCE_SECONDS", 1.0)
    with running_peer() as gone:
        gone.kill()
        lab.settings["connections"] = {"broker": {"kafka": {"bootstrap.servers": gone.servers}}}
        table(lab, "t")
        with pytest.raises(TransientStepError, match="refused"):
            publish(lab)


def test_what_dead_attempts_staged_is_garbage(lab: Lab, topic: str):
    from datetime import timedelta

    table(lab, topic)
    with lab.session("ods.t", day(1)) as session:
        (staged,) = session.stage(lab.project.table("ods.t").steps[0])
    found = find_garbage(lab.project, lambda job, place: False, timedelta(0))
    assert [garbage.location for garbage in found] == [as_path(str(staged.location))]
