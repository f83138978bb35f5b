"""Mock Kafka cluster: librdkafka's own, in a separate process, for examples and tests.

It speaks the real protocol over TCP on 127.0.0.1, keeps produced messages in memory (the newest 5
MB or 100,000 messages of a partition), and supports transactions, fencing and control records. Run
as a program, it prints its `bootstrap.servers` and then answers commands, one JSON list per line,
with `ok` or an error's name: `["create", topic, partitions]`, `["delete", topic]`,
`["delete_records", topic, partition, before_offset]`, `["fail", "", request, error]`. It ends when
its standard input is closed.
"""

import ctypes
import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any, TypeVar

from logdriven_dagster.errors import UsageError

_PRODUCER = 0


@dataclass
class MockKafka:
    """The running cluster."""

    process: "subprocess.Popen[str]"
    servers: str
    """Value for `bootstrap.servers`."""

    def create(self, topic: str, partitions: int = 1) -> str:
        """Create a topic and return its name."""
        return self._ask("create", topic, partitions)

    def _ask(self, command: str, topic: str, *values: int) -> str:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        print(json.dumps([command, topic, *values]), file=self.process.stdin, flush=True)
        answer = self.process.stdout.readline().strip()
        if answer != "ok":
            raise RuntimeError(f"{command} {topic}: {answer or 'the cluster has ended'}")
        return topic


Cluster = TypeVar("Cluster", bound=MockKafka)


@contextmanager
def running(kind: type[Cluster]) -> Iterator[Cluster]:
    """Run a cluster with one broker within the block. Raises UsageError without confluent-kafka."""
    if find_spec("confluent_kafka") is None:
        raise UsageError("the Kafka mock is part of confluent-kafka; install the extra [kafka]")
    process = subprocess.Popen(
        [sys.executable, "-m", __name__],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        yield kind(process, process.stdout.readline().strip())
    finally:
        process.stdin.close()
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
        process.stdout.close()


def _library() -> Any:
    """Load the librdkafka of confluent-kafka's wheel; its mock cluster is public C API."""
    package = find_spec("confluent_kafka")
    assert package is not None
    assert package.origin is not None
    folder = Path(package.origin).parent.with_name("confluent_kafka.libs")
    library = ctypes.CDLL(str(next(folder.glob("librdkafka*.so*"))))
    for name in ("conf_new", "new", "mock_cluster_new"):
        getattr(library, f"rd_kafka_{name}").restype = ctypes.c_void_p
    for name in ("err2name", "mock_cluster_bootstraps"):
        getattr(library, f"rd_kafka_{name}").restype = ctypes.c_char_p
    return library


def _serve() -> None:
    library, text = _library(), ctypes.create_string_buffer(512)
    settings = ctypes.c_void_p(library.rd_kafka_conf_new())
    # Suppresses a warning about missing bootstrap.servers, which are its own.
    library.rd_kafka_conf_set(settings, b"log_level", b"3", text, ctypes.c_size_t(len(text)))
    client = library.rd_kafka_new(_PRODUCER, settings, text, ctypes.c_size_t(len(text)))
    cluster = ctypes.c_void_p(library.rd_kafka_mock_cluster_new(ctypes.c_void_p(client), 1))
    _answer(library.rd_kafka_mock_cluster_bootstraps(cluster).decode())
    for line in sys.stdin:
        command, topic, *values = json.loads(line)
        match command:
            case "create":
                code = library.rd_kafka_mock_topic_create(cluster, topic.encode(), values[0], 1)
            case "delete":
                code = library.rd_kafka_mock_topic_delete(cluster, topic.encode())
            case "fail":
                errors = (ctypes.c_int * 1)(values[1])
                count, code = ctypes.c_size_t(1), 0
                library.rd_kafka_mock_push_request_errors_array(cluster, values[0], count, errors)
            case _:
                code = library.rd_kafka_mock_partition_delete_records(
                    cluster, topic.encode(), values[0], ctypes.c_int64(values[1])
                )
        _answer("ok" if code == 0 else library.rd_kafka_err2name(code).decode())


def _answer(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    _serve()
