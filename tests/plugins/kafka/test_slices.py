"""`incremental_type: kafka_offset`, from the plan to the target. Checklist S16–S21."""

import json
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml

from logdriven_dagster.execution.events import WindowFailed
from logdriven_dagster.planning.slices import find_slices_within
from tests.execution.conftest import World
from tests.plugins.kafka.peer import Peer
from tests.slices.conftest import noon

DONE = "SUCCESS"


class Stream(World):
    """A table `ods.views` that is loaded from a topic."""

    def __init__(self, root: Path, spark: Any, peer: Peer, topic: str) -> None:
        self.root, self.spark, self.peer, self.topic = root, spark, peer, topic
        kafka = {"bootstrap.servers": peer.servers}
        settings = {"project": "stream", "connections": {"broker": {"kafka": kafka}}}
        self.write("logdriven.yaml", yaml.safe_dump(settings))
        self.table()

    def table(self, source: dict[str, Any] | None = None, **fields: Any) -> None:
        origin = {"type": "kafka", "connection": "broker", "topic": self.topic, **(source or {})}
        sql = "SELECT CAST(value AS STRING) AS v, partition, offset FROM source"
        step = {"step": "load", "source": origin, "sql": sql, "target": {"type": "iceberg"}}
        values = {"table": "ods.views", "incremental_type": "kafka_offset", "period": "1 day"}
        self.write("tables/views.yaml", yaml.safe_dump({**values, "steps": [step], **fields}))

    def send(self, *values: str, partition: int = 0) -> None:
        self.peer.send(self.topic, *values, partition=partition)

    def run(self, day: int, **options: Any) -> list[Any]:
        return self.catch_up(now=noon(day), **options)

    def ranges(self) -> list[tuple[dict[str, int], dict[str, int]]]:
        """Partition → offset at the start and at the end of every attempt that succeeded."""
        rows = [row for row in self.log() if row["status"] == DONE]
        both = [(json.loads(r["data_range_start"]), json.loads(r["data_range_end"])) for r in rows]
        return [(low[self.topic], high[self.topic]) for low, high in both]

    def values(self) -> list[str]:
        return [row[0] for row in self.rows("ods.views")]


@pytest.fixture
def stream(tmp_path: Path, spark: Any, peer: Peer, topic: str) -> Stream:
    return Stream(tmp_path, spark, peer, topic)


def test_from_the_earliest_message_on_with_the_end_written_back_s16(stream: Stream):
    stream.send("a", "b")
    stream.run(1)
    stream.send("c")
    stream.run(2)
    assert stream.ranges() == [({"0": 0}, {"0": 2}), ({"0": 2}, {"0": 3})]
    assert stream.values() == ["a", "b", "c"]
    counts = [(s["source_count"], s["target_count"]) for r in stream.log() for s in r["steps"]]
    assert counts == [(2, 2), (1, 1)]


@pytest.mark.usefixtures("long")
def test_a_partition_without_news_keeps_its_offset_s17(stream: Stream, peer: Peer):
    stream.topic = peer.create(f"{stream.topic}_two", 2)
    stream.table()
    stream.send("a", partition=0)
    stream.send("b", "c", partition=1)
    stream.run(1)
    stream.send("d", partition=1)
    stream.run(2)
    stream.send("e", partition=0)
    stream.run(3)
    assert [high for _, high in stream.ranges()] == [
        {"0": 1, "1": 2},
        {"0": 1, "1": 3},
        {"0": 2, "1": 3},
    ]
    assert stream.values() == ["a", "b", "c", "d", "e"]


def test_a_partition_that_is_new_is_read_from_its_beginning_s18(stream: Stream, peer: Peer):
    stream.send("a")
    stream.run(1)
    # The mock cluster cannot add partitions: the topic comes back with one more.
    peer.delete(stream.topic)
    peer.create(stream.topic, 2)
    stream.send("a", partition=0)
    stream.send("new", partition=1)
    stream.run(2)
    assert stream.ranges()[-1] == ({"0": 1, "1": 0}, {"0": 1, "1": 1})
    assert stream.values() == ["a", "new"]


def test_after_years_it_goes_on_where_it_ended_s20(stream: Stream):
    stream.send("a")
    stream.run(1)
    stream.send("b")
    list(stream.runner.catch_up(noon(1) + timedelta(days=800)))
    assert stream.values() == ["a", "b"]


def test_an_empty_topic_is_an_empty_slice_until_something_comes(stream: Stream):
    stream.run(1)
    stream.run(2)
    stream.send("a")
    stream.run(3)
    assert stream.ranges() == [({"0": 0}, {"0": 0}), ({"0": 0}, {"0": 0}), ({"0": 0}, {"0": 1})]
    assert [row["job_schedule_id"] for row in stream.log()] == ["ods.views-0"] * 3
    assert stream.values() == ["a"]


def test_windows_of_at_most_so_many_messages(stream: Stream):
    stream.table(max_offsets_per_window=2)
    stream.send(*"abcde")
    stream.run(1)
    assert [high["0"] for _, high in stream.ranges()] == [2, 4, 5]
    assert stream.values() == list("abcde")


def test_a_retry_reads_the_range_that_the_log_has(stream: Stream):
    stream.send("a")
    stream.table(checks=[{"check": "none", "sql": "SELECT 1 FROM load"}])
    assert [e for e in stream.run(1) if isinstance(e, WindowFailed)]
    stream.send("b")
    stream.table()
    stream.run(1)
    assert stream.ranges() == [({"0": 0}, {"0": 1})]
    stream.run(2)
    assert stream.values() == ["a", "b"]


@pytest.mark.usefixtures("long")
def test_a_refresh_of_explicit_offsets_moves_no_watermark_s21(stream: Stream):
    stream.table(max_offsets_per_window=2)
    stream.send(*"abcdef")
    stream.run(1)
    table = stream.runner.project.table("ods.views")
    known = stream.runner.slices("ods.views")
    asked = [json.dumps({stream.topic: {"0": offset}}) for offset in (3, 4)]
    (touched,) = find_slices_within(table, known, *asked)
    assert touched.number == 1
    list(stream.runner.refresh_windows("ods.views", [touched], noon(1)))
    stream.send("g")
    stream.run(2)
    assert stream.ranges()[-2:] == [({"0": 2}, {"0": 4}), ({"0": 6}, {"0": 7})]
    assert stream.values() == list("abcdefg")


@pytest.mark.usefixtures("long")
def test_a_refresh_whose_messages_are_gone_fails_alone_and_the_stream_goes_on_s08(
    stream: Stream, peer: Peer
):
    stream.send(*"abc")
    stream.run(1)
    stream.send("d")
    stream.run(2)
    peer.delete_records(stream.topic, 0, 3)
    (first,) = stream.runner.slices("ods.views", ["0"])
    [*_, failure] = stream.runner.refresh_windows("ods.views", [first], noon(2))
    assert isinstance(failure, WindowFailed)
    stream.send("e")
    stream.run(3)
    assert stream.values() == list("abcde")
    assert stream.runner.plan(noon(3)).tables["ods.views"].pending == 0


def test_lost_messages_fail_the_slice_and_on_gap_report_logs_them(stream: Stream, peer: Peer):
    stream.send(*"abc")
    stream.run(1)
    stream.send(*"defg")
    peer.delete_records(stream.topic, 0, 5)
    (failure,) = [e for e in stream.run(2) if isinstance(e, WindowFailed)]
    assert stream.topic in failure.error
    stream.table({"on_gap": "report"})
    stream.run(2)
    assert stream.values() == ["a", "b", "c", "f", "g"]
    assert "3" in stream.log()[-1]["steps"][0]["output"]


def test_an_unknown_topic_is_a_failure_that_names_it(stream: Stream):
    stream.table({"topic": "nowhere"})
    (failure,) = [e for e in stream.run(1) if isinstance(e, WindowFailed)]
    assert "nowhere" in failure.error
