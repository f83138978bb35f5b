"""Targets of type kafka: one Kafka transaction sends a window to a topic.

Consumers that read committed messages see all rows of a window or none. A topic cannot take
messages back, so publishing again means sending again: if a runner dies between the commit of its
transaction and the end of its attempt, the next attempt sends the window again (at least once).
Headers on every message name the table, window and job that sent it, so that consumers can drop
duplicates.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from logdriven_dagster.config.project import Project
from logdriven_dagster.engine.arrow.rows import ArrowRows
from logdriven_dagster.engine.queries.schemas import WINDOW_START, conform, ddl
from logdriven_dagster.engine.spark.settings import option_texts
from logdriven_dagster.engine.storage.staging import staging_of
from logdriven_dagster.engine.storage.storage import Storage
from logdriven_dagster.engine.targets.contents import Contents, Named
from logdriven_dagster.engine.targets.staged_files import are_whole, stage_files, staged_frame
from logdriven_dagster.engine.targets.store import StagedRows, StoreContext
from logdriven_dagster.errors import TerminalStepError, TransientStepError
from logdriven_dagster.model.runs import Published, WindowRun
from logdriven_dagster.model.windows import TimeWindow
from logdriven_dagster.plugins.kafka.clients import (
    ANSWER_SECONDS,
    Complaints,
    kafka_error,
    open_producer,
    require_package,
)
from logdriven_dagster.plugins.kafka.models import KafkaTarget
from logdriven_dagster.plugins.kafka.settings import client_settings

if TYPE_CHECKING:
    from confluent_kafka import KafkaException, Producer
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

_TYPES = {
    "key": ("string", "binary"),
    "value": ("string", "binary"),
    "headers": ("array<struct<key:string,value:binary>>",),
}
_FENCED = frozenset({"_FENCED", "PRODUCER_FENCED", "INVALID_PRODUCER_EPOCH"})
_ROWS_AT_ONCE = 10_000
_PATIENCE_SECONDS = 30.0


class KafkaTopic:
    """A target of type `kafka`; implements `Store`."""

    takes_stretches = False

    def __init__(self, context: StoreContext, table: str, target: KafkaTarget) -> None:
        self._context, self._table, self._target = context, table, target
        self._staging = staging_of(context.project, table)

    def stage(self, frame: "DataFrame", runs: Sequence[WindowRun]) -> tuple[StagedRows, ...]:
        """Write Parquet files into the warehouse; refuse columns that messages do not have."""
        require_package()
        topic = self._target.topic
        frame = conform(frame.drop(WINDOW_START), None, topic)
        frame = frame.toDF(*(name.lower() for name in frame.columns))
        _refuse_unsendable(frame.schema, topic)
        return stage_files(frame, self._staging, runs)

    def staged_frame(self, staged: Sequence[StagedRows]) -> "DataFrame":
        """Return the staged rows, read from their files."""
        return staged_frame(self._context.spark, staged)

    def holds(self, staged: StagedRows) -> bool:
        """Return True if all staged files exist and are complete."""
        return are_whole(staged, self._staging)

    def fence(self, runs: Sequence[WindowRun]) -> None:
        """Fence off other producers of this window, and abort a transaction that one left open."""
        (run,) = runs
        self._producer(run, Complaints())

    def publish(
        self, staged: Sequence[StagedRows], verify: Callable[[], None]
    ) -> tuple[Published, ...]:
        """Send the rows in one transaction.

        A second call sends them again. A window is exactly one transaction only as long as it is
        not published twice, which happens after a crash right after the commit.
        """
        (rows,) = staged
        # A runner that lost its window must not even begin: it would fence off the current holder.
        verify()
        if rows.files:
            self._send(rows, verify)
        self.discard(staged)
        return (Published(rows.run.step_id, self._target.topic, rows=rows.rows),)

    def _send(self, staged: StagedRows, verify: Callable[[], None]) -> None:
        require_package()
        from confluent_kafka import KafkaException

        complaints, topic = Complaints(), self._target.topic
        producer = self._producer(staged.run, complaints)
        sending = _Sending(producer, topic, _own_headers(staged.run))
        try:
            producer.begin_transaction()
            for path in staged.files:
                for row in _rows(self._staging.storage, path):
                    sending.send(**row)
            sending.finish()
            verify()
            _insist(producer.commit_transaction)
        except BaseException as error:
            # If the broker is gone, the transaction ends after `transaction.timeout.ms`.
            with suppress(KafkaException):
                producer.abort_transaction(5)
            if isinstance(error, KafkaException):
                raise self._failure(error, complaints.fetch(producer), verify) from None
            raise

    def _failure(
        self, error: "KafkaException", complaints: Complaints, verify: Callable[[], None]
    ) -> Exception:
        if kafka_error(error).name() not in _FENCED and not complaints.include(_FENCED):
            return complaints.failure(error, f"Kafka, topic {self._target.topic}, transaction")
        # The lease decides: the other runner may have been frozen for a long time.
        verify()
        return TransientStepError(
            f"Kafka, topic {self._target.topic}: another runner without the lease "
            "fenced off this one; the transaction was aborted"
        )

    def _producer(self, run: WindowRun, complaints: Complaints) -> "Producer":
        """Open the only producer of this window; Kafka fences off earlier ones."""
        require_package()
        from confluent_kafka import KafkaException

        settings = client_settings(self._context.project, self._target.connection)
        settings |= option_texts(self._target.options)
        producer = open_producer(settings, self._transactional_id(run), complaints)
        try:
            _insist(producer.init_transactions)
        except KafkaException as error:
            what = f"Kafka, topic {self._target.topic}, beginning a transaction"
            raise complaints.fetch(producer).failure(error, what) from None
        return producer

    def _transactional_id(self, run: WindowRun) -> str:
        parts = ("logdriven", self._context.project.name, run.table, self._target.topic)
        return "-".join([*parts, run.window.key])

    def discard(self, staged: Sequence[StagedRows]) -> None:
        """Remove the staging folder of these rows."""
        (rows,) = staged
        self._staging.storage.remove(rows.location)

    def read(self, window: TimeWindow | None) -> "DataFrame":
        """Refuse: a topic is read by offsets, which a table's name does not provide."""
        raise _no_table(self._table, self._target, window)


class KafkaContents(Contents):
    """Reader of the contents of targets of type kafka, which are not known."""

    def rows(
        self, project: Project, table: str, target: KafkaTarget, window: TimeWindow | None
    ) -> ArrowRows | None:
        _ = project
        raise _no_table(table, target, window)

    def find_move_obstacle(self, project: Project, old: Named, new: Named) -> str | None:
        _ = project, old, new
        return None  # a topic does not have the name of the table


def _no_table(table: str, target: KafkaTarget, window: TimeWindow | None) -> TerminalStepError:
    return TerminalStepError(
        f"{table} is a topic of Kafka, which cannot be read by the table's name; read "
        f"topic {target.topic} with a source of type kafka"
        + (f" instead of the window {window}" if window else "")
    )


def _refuse_unsendable(schema: "StructType", topic: str) -> None:
    found = {field.name: field.dataType.simpleString() for field in schema.fields}
    wrong = [name for name, kind in found.items() if kind not in _TYPES.get(name, ())]
    if wrong or "value" not in found:
        raise TerminalStepError(
            f"{topic}: a message has value, and may have key (both STRING or BINARY) and headers "
            f"(ARRAY<STRUCT<key: STRING, value: BINARY>>); the result is: {ddl(schema)}"
        )


def _own_headers(run: WindowRun) -> list[tuple[str, bytes]]:
    own = {"table": run.table, "window": run.window.key, "job": str(run.job_id)}
    return [(f"logdriven-{name}", value.encode()) for name, value in own.items()]


def _rows(storage: Storage, location: str) -> Iterator[dict[str, Any]]:
    from pyarrow.parquet import ParquetFile

    with storage.open(location) as stream, ParquetFile(stream) as file:
        for batch in file.iter_batches(_ROWS_AT_ONCE):
            yield from batch.to_pylist()


class _Sending:
    """Messages in transit to a topic; the first one that fails stops the rest."""

    def __init__(self, producer: "Producer", topic: str, own: list[tuple[str, bytes]]) -> None:
        self._producer, self._topic, self._own = producer, topic, own
        self._failed: list[Any] = []

    def send(self, value: Any, key: Any = None, headers: Any = None) -> None:
        given = [(header["key"], header["value"]) for header in headers or ()]
        while True:
            try:
                self._producer.produce(
                    self._topic,
                    value,
                    key,
                    headers=given + self._own,
                    on_delivery=self._on_delivery,
                )
            except BufferError:  # librdkafka's queue is full
                self._producer.poll(0.5)
                self._stop_if_failed()
                continue
            self._producer.poll(0)
            return

    def finish(self) -> None:
        """Wait until the brokers have received all messages."""
        while self._producer.flush(1):
            self._stop_if_failed()
        self._stop_if_failed()

    def _on_delivery(self, error: Any, _message: Any) -> None:
        if error is not None:
            self._failed.append(error)

    def _stop_if_failed(self) -> None:
        from confluent_kafka import KafkaException

        if self._failed:
            raise KafkaException(self._failed[0])


def _insist(call: Callable[[float], Any]) -> None:
    """Call until it succeeds, fails permanently, or half a minute has passed."""
    from confluent_kafka import KafkaException

    deadline = time.monotonic() + _PATIENCE_SECONDS
    while True:
        try:
            call(ANSWER_SECONDS)
            return
        except KafkaException as error:
            if not kafka_error(error).retriable() or time.monotonic() > deadline:
                raise
