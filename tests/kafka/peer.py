"""A Kafka protocol peer: librdkafka's mock cluster, in a process of its own.

It speaks the real protocol over TCP on 127.0.0.1, keeps what is produced in memory (the newest 5 MB
or 100,000 messages of a partition), and does transactions, fencing and control records. Run as a
program it prints its `bootstrap.servers`, then answers commands, one JSON list a line, with `ok`
or an error's name: `["create", topic, partitions]`, `["delete", topic]`,
`["delete_records", topic, partition, before_offset]`, `["fail", "", request, error]`.
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
from typing import Any

from confluent_kafka import Producer

_PRODUCER = 0


@dataclass
class Peer:
    """The running cluster, seen from a test."""

    process: "subprocess.Popen[str]"
    servers: str

    def create(self, topic: str, partitions: int = 1) -> str:
        return self._ask("create", topic, partitions)

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

    def _ask(self, command: str, topic: str, *values: int) -> str:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        print(json.dumps([command, topic, *values]), file=self.process.stdin, flush=True)
        answer = self.process.stdout.readline().strip()
        if answer != "ok":
            raise RuntimeError(f"{command} {topic}: {answer or 'the cluster is gone'}")
        return topic


@contextmanager
def running_peer() -> Iterator[Peer]:
    """A cluster of one broker that ends with the block."""
    process = subprocess.Popen(
        [sys.executable, __file__], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        yield Peer(process, process.stdout.readline().strip())
    finally:
        process.stdin.close()
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
        process.stdout.close()


def _library() -> Any:
    """The librdkafka that confluent-kafka's wheel brings; its mock cluster is public C API."""
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
    client = library.rd_kafka_new(_PRODUCER, settings, text, ctypes.c_size_t(len(text)))
    cluster = ctypes.c_void_p(library.rd_kafka_mock_cluster_new(ctypes.c_void_p(client), 1))
    print(library.rd_kafka_mock_cluster_bootstraps(cluster).decode(), flush=True)
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
        print("ok" if code == 0 else library.rd_kafka_err2name(code).decode(), flush=True)


if __name__ == "__main__":
    _serve()
