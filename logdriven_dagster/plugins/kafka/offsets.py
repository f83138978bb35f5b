"""Offset ranges of Kafka topics, without Spark.

A range begins at `low`, inclusive, and ends before `high`; both name every partition that exists,
so that the next range continues in each of them. Integers have no limit here; Kafka's have 64 bits.
Source: Sharp ETL, incremental type kafka_offset.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from logdriven_dagster.errors import StepError, TerminalStepError
from logdriven_dagster.model import offsets as written
from logdriven_dagster.model.offsets import Offsets, Partition, format_offsets
from logdriven_dagster.plugins.kafka.clients import (
    ANSWER_SECONDS,
    Complaints,
    is_read_committed,
    open_admin,
    require_package,
)

if TYPE_CHECKING:
    from confluent_kafka import KafkaError

Extents: TypeAlias = Mapping[Partition, tuple[int, int]]
"""Partition → the offset of its oldest message, and the offset after its newest."""

OnGap: TypeAlias = Literal["fail", "report"]

_FORM = 'offsets are written like {"topic":{"0":42,"1":7}}'
_FEW_MESSAGES = 10_000


@dataclass(frozen=True, slots=True)
class Bounded:
    """An offset range with two known ends."""

    low: str
    """Offsets of every partition that exists, inclusive."""
    high: str
    """Offsets of the same partitions, exclusive."""
    has_more: bool
    """True if the limit left messages for the next range."""
    messages: int
    """Number of offsets in the range; compacted and transactional topics have fewer messages."""
    notes: str = ""
    """Sentences about lost messages and omitted topics."""


@dataclass(frozen=True, slots=True, order=True)
class Range:
    """The offsets `[first, end)` of one partition."""

    topic: str
    partition: int
    first: int
    end: int

    def __str__(self) -> str:
        return f"{self.topic} partition {self.partition}, offsets {self.first} to {self.end - 1}"


def parse(given: str) -> dict[Partition, int]:
    """Parse offsets from text; raise TerminalStepError if the text is invalid."""
    try:
        return written.parse(given)
    except ValueError:
        raise TerminalStepError(
            f"{given[:200]!r} is not a range of Kafka offsets; {_FORM}"
        ) from None


def read_range(
    settings: Mapping[str, str],
    topics: Sequence[str],
    low: str | None,
    limit: int | None = None,
    on_gap: OnGap = "fail",
) -> Bounded:
    """Return the offset range from `low` to the current end of the topics.

    `settings` are librdkafka's. `low` is `earliest`, `latest`, or the end of the previous range.
    `limit` is the largest number of messages. Raises TransientStepError within about ten seconds if
    the cluster cannot be reached, and TerminalStepError if a topic does not exist, or if messages
    were deleted before they were read, unless `on_gap` is `report`.
    """
    start = low or "earliest"
    known = start if start in ("earliest", "latest") else parse(start)
    return build_range(extents(settings, topics), topics, known, limit, on_gap)


def build_range(
    found: Extents,
    topics: Sequence[str],
    low: Offsets | str,
    limit: int | None = None,
    on_gap: OnGap = "fail",
) -> Bounded:
    """Return the offset range from `low` to the end of known extents, of at most `limit` messages.

    Raises TerminalStepError if messages were lost, unless `on_gap` is `report`.
    """
    lost: list[str] = []
    notes: list[str] = []
    if isinstance(low, str):
        starts = {p: (end if low == "latest" else first) for p, (first, end) in found.items()}
    else:
        starts = {p: _start(low, p, extent, lost) for p, extent in found.items()}
        lost += _find_vanished(low, found, topics)
        notes += _find_left_out(low, topics)
    if lost and on_gap == "fail":
        raise TerminalStepError(_refusal(lost))
    waiting = {p: end - starts[p] for p, (_, end) in found.items()}
    taken = shares(waiting, limit)
    total = sum(taken.values())
    return Bounded(
        format_offsets(starts),
        format_offsets({p: start + taken[p] for p, start in starts.items()}),
        total < sum(waiting.values()),
        total,
        ". ".join([*lost, *notes]),
    )


def _start(low: Offsets, partition: Partition, extent: tuple[int, int], lost: list[str]) -> int:
    """Return the start offset of a partition; describe missing messages in `lost`."""
    (topic, number), (first, end) = partition, extent
    start = low.get(partition)
    if start is None:  # a new partition
        return first
    if start < first:
        lost.append(
            f"{topic} partition {number}: offsets {start} to {first - 1} were deleted "
            f"before they were read (the oldest remaining one is {first})"
        )
        return first
    if start > end:
        lost.append(
            f"{topic} partition {number}: offset {start} is after its end {end}, so the "
            f"topic was recreated or truncated; the old messages from {start} on are "
            f"lost, and the new ones begin at {first}"
        )
        return first
    return start


def _find_vanished(low: Offsets, found: Extents, topics: Sequence[str]) -> Iterator[str]:
    for (topic, number), start in sorted(low.items()):
        if topic in topics and (topic, number) not in found:
            yield (
                f"{topic} partition {number}: it does not exist any more; its messages from "
                f"offset {start} on are lost"
            )


def _find_left_out(low: Offsets, topics: Sequence[str]) -> list[str]:
    names = sorted({topic for topic, _ in low} - set(topics))
    return [f"{name} is not a topic of the source any more and is not read" for name in names]


def _refusal(lost: list[str]) -> str:
    shown = "; ".join(lost[:5]) + (f"; and {len(lost) - 5} more" if len(lost) > 5 else "")
    return (
        f"{shown}. Nothing was skipped. To continue with the remaining messages, "
        "set on_gap: report in the source, or load the lost messages by other "
        "means first"
    )


def shares(waiting: Mapping[Partition, int], limit: int | None) -> dict[Partition, int]:
    """Return how many messages to read from each partition: `limit` in total, or all if fewer.

    Each partition with messages gets one while the limit lasts, so that a larger one cannot starve
    it. The rest is distributed in proportion to the remaining messages; remainders go to the
    largest fractions.
    """
    if limit is None or sum(waiting.values()) <= limit:
        return dict(waiting)
    largest_first = sorted((p for p in waiting if waiting[p]), key=lambda p: (-waiting[p], p))
    served = largest_first[:limit]
    left = {p: waiting[p] - 1 for p in served}
    spare, rest = limit - len(served), max(sum(left.values()), 1)
    taken = {p: 1 + spare * left[p] // rest for p in served}
    fractions = sorted(served, key=lambda p: (-(spare * left[p] % rest), p))
    for partition in fractions[: limit - sum(taken.values())]:
        taken[partition] += 1
    return dict.fromkeys(waiting, 0) | taken


def ranges(low: str, high: str) -> list[Range]:
    """Return the partition ranges between two ends; raise TerminalStepError if they differ.

    The ends must name the same partitions, and no range may end before it begins.
    """
    starts, ends = parse(low), parse(high)
    if starts.keys() != ends.keys():
        raise TerminalStepError(
            f"the offset range {low} – {high} does not have the same partitions at both ends"
        )
    found = [Range(*partition, starts[partition], ends[partition]) for partition in sorted(ends)]
    if backwards := [part for part in found if part.end < part.first]:
        raise TerminalStepError(f"the offset range ends before it begins: {backwards[0]}")
    return [part for part in found if part.first < part.end]


def tasks(parts: Iterable[Range], per_task: int) -> list[tuple[Range, ...]]:
    """Group ranges into tasks: one range each, long ones split, and few messages in one task."""
    parts = list(parts)
    if sum(part.end - part.first for part in parts) <= min(per_task, _FEW_MESSAGES):
        return [tuple(parts)] if parts else []
    return [
        (Range(part.topic, part.partition, first, min(first + per_task, part.end)),)
        for part in parts
        for first in range(part.first, part.end, per_task)
    ]


def extents(settings: Mapping[str, str], topics: Sequence[str]) -> dict[Partition, tuple[int, int]]:
    """Return the first and end offset of each partition of the topics, as their readers see them.

    For readers of committed messages, a partition ends before the first open transaction, so that
    no window waits for one. Raises TerminalStepError if a topic does not exist, and
    TransientStepError if the cluster does not respond.
    """
    require_package()
    import confluent_kafka.admin
    from confluent_kafka import IsolationLevel, KafkaException, TopicPartition

    specification: Any = confluent_kafka.admin  # its annotations omit OffsetSpec
    complaints = Complaints()
    admin = open_admin(settings, complaints)
    committed = is_read_committed(settings)
    isolation = IsolationLevel.READ_COMMITTED if committed else IsolationLevel.READ_UNCOMMITTED

    def offsets(spec: Any) -> dict[Partition, int]:
        asked = admin.list_offsets(
            dict.fromkeys(names, spec), isolation_level=isolation, request_timeout=ANSWER_SECONDS
        )
        return {(p.topic, p.partition): future.result().offset for p, future in asked.items()}

    try:
        names = []
        for topic in dict.fromkeys(topics):
            found = admin.list_topics(topic, timeout=ANSWER_SECONDS).topics[topic]
            if found.error is not None:
                raise _unreadable(topic, found.error, complaints)
            names += [TopicPartition(topic, number) for number in sorted(found.partitions)]
        firsts = offsets(specification.OffsetSpec.earliest())
        ends = offsets(specification.OffsetSpec.latest())
    except KafkaException as error:
        raise complaints.fetch(admin).failure(error, f"Kafka, {', '.join(topics)}") from None
    return {partition: (firsts[partition], ends[partition]) for partition in ends}


def _unreadable(topic: str, error: "KafkaError", complaints: Complaints) -> StepError:
    if error.name() == "UNKNOWN_TOPIC_OR_PART":
        return TerminalStepError(
            f"topic {topic} does not exist in Kafka; create it, or correct source.topic"
        )
    return complaints.failure(error, f"Kafka, topic {topic}")
