"""A Kafka cluster for all tests, and a project with a connection to it."""

from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from tests.engine.laboratory import Lab
from tests.plugins.kafka.peer import Peer, running_peer

_TOPICS = count(1)


@pytest.fixture(scope="session")
def peer() -> Iterator[Peer]:
    with running_peer() as cluster:
        yield cluster


@pytest.fixture
def topic(peer: Peer) -> str:
    """A new topic of one partition."""
    return peer.create(f"topic{next(_TOPICS)}")


@pytest.fixture
def lab(spark: Any, tmp_path: Path, peer: Peer) -> Lab:
    kafka = {"bootstrap.servers": peer.servers}
    return Lab(tmp_path, spark, {"connections": {"broker": {"kafka": kafka}}})
