"""Kafka clients: librdkafka's settings for each purpose, and its errors as StepErrors.

librdkafka connects in the background and retries forever; it reports problems only to a callback.
`Complaints` keeps these errors, so that a timeout error can include the cause.
"""

import logging
from collections import deque
from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from logdriven_dagster.errors import StepError, TerminalStepError, TransientStepError

if TYPE_CHECKING:
    from confluent_kafka import Consumer, KafkaError, KafkaException, Producer
    from confluent_kafka.admin import AdminClient

ANSWER_SECONDS = 8.0
"""Timeout of one request, so that an unreachable cluster is reported within ten seconds."""

TRANSIENT = frozenset(
    {
        "BROKER_NOT_AVAILABLE",
        "CONCURRENT_TRANSACTIONS",
        "COORDINATOR_LOAD_IN_PROGRESS",
        "COORDINATOR_NOT_AVAILABLE",
        "KAFKA_STORAGE_ERROR",
        "LEADER_NOT_AVAILABLE",
        "NETWORK_EXCEPTION",
        "NOT_COORDINATOR",
        "NOT_ENOUGH_REPLICAS",
        "NOT_ENOUGH_REPLICAS_AFTER_APPEND",
        "NOT_LEADER_FOR_PARTITION",
        "OFFSET_NOT_AVAILABLE",
        "REQUEST_TIMED_OUT",
        "THROTTLING_QUOTA_EXCEEDED",
        "_ALL_BROKERS_DOWN",
        "_FAIL",
        "_MSG_TIMED_OUT",
        "_RESOLVE",
        "_RETRY",
        "_TIMED_OUT",
        "_TIMED_OUT_QUEUE",
        "_TRANSPORT",
        "_WAIT_COORD",
    }
)
"""Names of Kafka errors caused by network, elections or load."""

_LAST_WORD = frozenset({"_AUTHENTICATION", "_SSL"})
"""Reported errors that a retry cannot resolve."""

_READING = {
    "group.id": "logdriven",
    "isolation.level": "read_committed",
    "allow.auto.create.topics": "false",
}
_QUIET = logging.getLogger("logdriven_dagster.kafka")
_QUIET.addHandler(logging.NullHandler())
_QUIET.propagate = False  # errors repeat many times a second; relevant ones are raised


class Complaints:
    """Errors that a client reported to its callback, the latest last."""

    def __init__(self) -> None:
        # An unreachable broker is reported several times a second.
        self._errors: deque[KafkaError] = deque(maxlen=100)

    def __call__(self, error: "KafkaError") -> None:
        """Record an error; this is the client's error callback."""
        self._errors.append(error)

    def fetch(self, client: Any) -> "Complaints":
        """Return these errors after fetching those that the client has not delivered yet."""
        from confluent_kafka import KafkaException

        with suppress(KafkaException):  # a fatal error, which the callback received first
            client.poll(0)
        return self

    def include(self, names: frozenset[str]) -> bool:
        """Return whether an error with one of these names was reported."""
        return any(error.name() in names for error in self._errors)

    def failure(self, error: "KafkaException | KafkaError", what: str) -> StepError:
        """Convert a Kafka error to a StepError: TransientStepError if a retry may help.

        `what` names the failed operation; the message adds the error and its cause.
        """
        found = kafka_error(error)
        reasons = [found.str()]
        last_words = [e for e in self._errors if e.name() in _LAST_WORD]
        for complaint in (last_words or list(self._errors))[-1:]:
            if complaint.str() not in reasons:
                reasons.append(complaint.str())
        transient = is_retriable(found) and not last_words
        kind = TransientStepError if transient else TerminalStepError
        return kind(f"{what}: {'; '.join(reasons)}")

    def silence(self, what: str) -> StepError:
        """Return the StepError for a missing response; `what` names the operation."""
        reason = f": {self._errors[-1].str()}" if self._errors else ""
        return TransientStepError(f"{what}{reason}")


def kafka_error(error: "KafkaException | KafkaError") -> Any:
    """Return the error inside an exception of confluent-kafka."""
    return error.args[0] if isinstance(error, Exception) else error


def is_retriable(error: Any) -> bool:
    """Return whether a KafkaError may disappear on retry."""
    return bool(error.retriable()) or error.name() in TRANSIENT


def open_admin(settings: Mapping[str, str], complaints: Complaints) -> "AdminClient":
    """Open a client that reads topics and offsets, and never creates a topic.

    `settings` are librdkafka's, `complaints` collects reported errors. Raises TerminalStepError if
    the settings are invalid, or if confluent-kafka is not installed.
    """
    require_package()
    from confluent_kafka.admin import AdminClient

    own = {"allow.auto.create.topics": "false"}
    return _open_client(AdminClient, {**settings, **own, "error_cb": complaints})  # type: ignore[no-any-return]


def open_consumer(settings: Mapping[str, str], complaints: Complaints) -> "Consumer":
    """Open a consumer for explicit offsets: it commits none and fails instead of resetting them.

    `settings` are librdkafka's, `complaints` collects reported errors. Raises TerminalStepError if
    the settings are invalid, or if confluent-kafka is not installed.
    """
    require_package()
    from confluent_kafka import Consumer

    own = {
        "enable.auto.commit": "false",
        "enable.auto.offset.store": "false",
        "enable.partition.eof": "true",
        "auto.offset.reset": "error",
    }
    return _open_client(Consumer, {**_READING, **settings, **own, "error_cb": complaints})  # type: ignore[no-any-return]


def open_producer(
    settings: Mapping[str, str], transactional_id: str, complaints: Complaints
) -> "Producer":
    """Open a producer of one transactional id; it partitions keys as Kafka's own clients do.

    `settings` are librdkafka's, `complaints` collects reported errors. Raises TerminalStepError if
    the settings are invalid, or if confluent-kafka is not installed.
    """
    require_package()
    from confluent_kafka import Producer

    defaults = {"partitioner": "murmur2_random", "transaction.timeout.ms": "300000"}
    own = {"transactional.id": transactional_id, "error_cb": complaints}
    return _open_client(Producer, {**defaults, **settings, **own})  # type: ignore[no-any-return]


def is_read_committed(settings: Mapping[str, str]) -> bool:
    """Return whether messages of aborted or open transactions are skipped."""
    return settings.get("isolation.level", _READING["isolation.level"]) == "read_committed"


def _open_client(client: Any, settings: dict[str, Any]) -> Any:
    from confluent_kafka import KafkaException

    try:
        return client(settings, logger=_QUIET)
    except (KafkaException, TypeError, ValueError) as error:
        raise TerminalStepError(f"the settings of the connection are invalid: {error}") from None


def require_package() -> None:
    """Raise TerminalStepError if confluent-kafka is not installed."""
    from importlib.util import find_spec

    if find_spec("confluent_kafka") is None:
        raise TerminalStepError(
            "type kafka needs the package confluent-kafka; run `pip install "
            "'logdriven_dagster[kafka]'` here and where Spark's executors run"
        )
