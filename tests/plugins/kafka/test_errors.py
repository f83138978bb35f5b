"""Which of Kafka's errors are worth another try."""

import pytest
from confluent_kafka import KafkaError, KafkaException

from logdriven_dagster.engine.failures import is_transient, step_error
from logdriven_dagster.errors import TerminalStepError, TransientStepError
from logdriven_dagster.plugins.kafka.clients import Complaints


@pytest.mark.parametrize(
    ("code", "transient"),
    [
        (KafkaError._TRANSPORT, True),
        (KafkaError._ALL_BROKERS_DOWN, True),
        (KafkaError._TIMED_OUT, True),
        (KafkaError.NOT_LEADER_FOR_PARTITION, True),
        (KafkaError.COORDINATOR_LOAD_IN_PROGRESS, True),
        (KafkaError.UNKNOWN_TOPIC_OR_PART, False),
        (KafkaError.TOPIC_AUTHORIZATION_FAILED, False),
        (KafkaError.MSG_SIZE_TOO_LARGE, False),
        (KafkaError._AUTHENTICATION, False),
    ],
)
def test_network_elections_and_load_pass(code: int, *, transient: bool):
    error = KafkaException(KafkaError(code))
    assert is_transient(error) == transient
    assert isinstance(step_error(error), TransientStepError) == transient
    assert isinstance(Complaints().failure(error, "Kafka"), TransientStepError) == transient


def test_a_time_out_gives_the_reason():
    complaints = Complaints()
    complaints(KafkaError(KafkaError._TRANSPORT, "b:9092: Connection refused"))
    error = complaints.failure(KafkaError(KafkaError._TIMED_OUT, "Timed out"), "Kafka, topic t")
    assert str(error) == "Kafka, topic t: Timed out; b:9092: Connection refused"


def test_a_time_out_after_a_refused_password_is_no_time_out():
    complaints = Complaints()
    complaints(KafkaError(KafkaError._AUTHENTICATION, "authentication failed"))
    complaints(KafkaError(KafkaError._ALL_BROKERS_DOWN, "1/1 brokers are down"))
    error = complaints.failure(KafkaError(KafkaError._TIMED_OUT, "Timed out"), "Kafka")
    assert isinstance(error, TerminalStepError)
    assert str(error) == "Kafka: Timed out; authentication failed"
