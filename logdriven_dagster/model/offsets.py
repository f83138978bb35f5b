"""Offsets of Kafka topics in the notation of Spark and Sharp ETL: `{"topic":{"0":42,"1":7}}`."""

import json
from collections.abc import Mapping
from typing import Any, TypeAlias

Partition: TypeAlias = tuple[str, int]
Offsets: TypeAlias = Mapping[Partition, int]


def parse(text: str) -> dict[Partition, int]:
    """Parse offsets in JSON. Raises ValueError for anything else."""
    return flatten_offsets(json.loads(text))


def flatten_offsets(topics: Any) -> dict[Partition, int]:
    """Flatten offsets by topic and partition. Raises ValueError for an invalid offset."""
    found = {}
    if not isinstance(topics, Mapping) or not all(isinstance(t, Mapping) for t in topics.values()):
        raise ValueError("topics and their partitions are objects")
    for topic, partitions in topics.items():
        for partition, offset in partitions.items():
            whole = isinstance(offset, int) and not isinstance(offset, bool) and offset >= 0
            if not whole or not str(partition).isdigit():
                raise ValueError(f"partition {partition!r} has {offset!r}")
            found[topic, int(partition)] = offset
    return found


def format_offsets(offsets: Offsets) -> str:
    """Format offsets as JSON: topics and partitions in order, without spaces."""
    topics: dict[str, dict[str, int]] = {}
    for (topic, partition), offset in sorted(offsets.items()):
        topics.setdefault(topic, {})[str(partition)] = offset
    return json.dumps(topics, separators=(",", ":"))


def get_spans(low: str, high: str) -> dict[Partition, range]:
    """Return the offsets of each partition in `high`; those absent from `low` start at 0."""
    starts = parse(low)
    return {
        partition: range(starts.get(partition, 0), end) for partition, end in parse(high).items()
    }
