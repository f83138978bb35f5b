"""Exceptions of both Kafka clients, confluent-kafka's and Java's, after which a retry may help."""

from logdriven_dagster.engine.spark.jvm_errors import list_jvm_errors
from logdriven_dagster.plugins.kafka.clients import is_retriable

_JAVA = "org.apache.kafka.common.errors.RetriableException"


def is_transient(error: Exception) -> bool:
    """Return whether an exception is an error of Kafka that may disappear on retry."""
    if type(error).__name__ == "KafkaException":
        return is_retriable(error.args[0])
    return any(_JAVA in thrown.types for thrown in list_jvm_errors(error))
