"""Reading exactly the offsets of a slice, in Spark."""

import subprocess
import sys
from typing import Any

import pytest
from confluent_kafka import Producer
from pyspark.sql.datasource import InputPartition

from logdriven_dagster.engine.sources.readers import Reading, read_source
from logdriven_dagster.engine.spark.settings import _drivers
from logdriven_dagster.errors import TerminalStepError, TransientStepError
from logdriven_dagster.model.attempts import Counts
from logdriven_dagster.model.windows import Slice
from logdriven_dagster.plugins.kafka import messages as kafka_messages
from logdriven_dagster.plugins.kafka import reader as kafka_source
from logdriven_dagster.plugins.kafka.messages import MessageReader
from logdriven_dagster.plugins.kafka.models import KafkaSource
from logdriven_dagster.plugins.kafka.offsets import read_range
from logdriven_dagster.plugins.kafka.reader import java_settings
from tests.builders import UTC, day
from tests.engine.laboratory import Lab
from tests.patience import within
from tests.plugins.kafka.peer import Peer, running_peer

SECRET = "s3cr3t-" + "of-the-broker"
COLUMNS = [
    ("key", "binary"),
    ("value", "binary"),
    ("topic", "string"),
    ("partition", "int"),
    ("offset", "bigint"),
    ("timestamp", "timestamp"),
    ("timestampType", "int"),
    ("headers", "array<struct<key:string,value:binary>>"),
]


def slice_of(peer: Peer, *topics: str, low: str = "earliest", number: int = 0) -> Slice:
    found = read_range({"bootstrap.servers": peer.servers}, topics, low)
    return Slice.nth(number, found.low, found.high, UTC)


def table(lab: Lab, topic: str, sql: str | None = None, **options: Any) -> str:
    source = {"type": "kafka", "connection": "broker", "topic": topic, "options": options}
    step = {"source": source, "target": {"type": "parquet"}} | ({"sql": sql} if sql else {})
    kafka = {"incremental_type": "kafka_offset", "default_start": "earliest"}
    # One table is read by several queries, whose results have columns of their own.
    return lab.table("ods.t", step, missing_columns="allow", **kafka)


def frame(lab: Lab, window: Any) -> Any:
    run = lab.window_run("ods.t", window)
    source = lab.project.table("ods.t").steps[0].source
    assert isinstance(source, KafkaSource)
    return read_source(Reading(lab.project, lab.spark, run, lambda: None), source)


def values(lab: Lab, window: Slice) -> list[str]:
    return sorted(row.value.decode() for row in frame(lab, window).collect())


@pytest.mark.usefixtures("long")
@pytest.mark.connect
def test_the_columns_are_those_of_sparks_connector(lab: Lab, peer: Peer, topic: str):
    peer.send(topic, "v", key=b"k", headers=[("h", b"1"), ("h", None)], timestamp=1_700_000_000_123)
    peer.send(topic, "w")
    table(lab, topic)
    found = frame(lab, slice_of(peer, topic))
    assert found.dtypes == COLUMNS
    first, second = found.orderBy("offset").collect()
    assert first.timestamp.timestamp() == 1_700_000_000.123
    assert [tuple(header) for header in first.headers] == [("h", b"1"), ("h", None)]
    kept = ("key", "value", "topic", "partition", "offset", "timestampType")
    assert [first[name] for name in kept] == [b"k", b"v", topic, 0, 0, 0]
    assert (second.key, second.headers) == (None, None)


def test_a_slice_gives_the_same_messages_after_later_ones_arrive(lab: Lab, peer: Peer, topic: str):
    peer.send(topic, *"abc")
    table(lab, topic)
    window = slice_of(peer, topic)
    peer.send(topic, *"def")
    assert values(lab, window) == [*"abc"]
    following = slice_of(peer, topic, low=str(window.high))
    assert values(lab, following) == [*"def"]
    assert values(lab, window) == [*"abc"]


@pytest.mark.usefixtures("long")
def test_every_message_is_counted_once(lab: Lab, peer: Peer):
    topic = peer.create("counted", 3)
    for partition in (0, 2):
        peer.send(topic, *map(str, range(50)), partition=partition)
    window = slice_of(peer, topic)
    table(lab, topic)
    assert lab.run("ods.t", window).counts == Counts(100, 100, 100, 0)
    assert len(list(lab.warehouse.glob("**/*.parquet"))) == 1
    table(lab, topic, "SELECT count(*) AS n FROM source", maxRecordsPerPartition=7)
    assert lab.run("ods.t", window).counts == Counts(100, 1, 1, 0)
    table(lab, topic, "SELECT partition FROM source WHERE offset >= 40", maxRecordsPerPartition=7)
    assert lab.run("ods.t", window).counts == Counts(20, 20, 20, 0)
    assert lab.run("ods.t", slice_of(peer, topic, low=str(window.high), number=1)).counts == Counts(
        0, 0, 0, 0
    )


def test_the_records_that_end_transactions_are_passed(lab: Lab, peer: Peer, topic: str):
    producer = Producer({"bootstrap.servers": peer.servers, "transactional.id": topic})
    producer.init_transactions(10)
    for value in "abc":
        producer.begin_transaction()
        producer.produce(topic, value)
        producer.commit_transaction(10)
    table(lab, topic)
    window = slice_of(peer, topic)
    assert window.high == f'{{"{topic}":{{"0":6}}}}'
    control_only = Slice.nth(0, window.high.replace("6", "5"), window.high, UTC)
    with within(10):
        assert values(lab, window) == [*"abc"]
        assert values(lab, control_only) == []


def test_several_topics_in_one_slice(lab: Lab, peer: Peer, topic: str):
    other = peer.create("besides")
    peer.send(topic, "a")
    peer.send(other, "b")
    table(lab, topic)
    assert values(lab, slice_of(peer, topic, other)) == ["a", "b"]


def test_two_sources_in_one_session(lab: Lab, peer: Peer, topic: str):
    peer.send(topic, *"ab")
    table(lab, topic)
    whole, rest = slice_of(peer, topic), slice_of(peer, topic, low=f'{{"{topic}":{{"0":1}}}}')
    one, two = frame(lab, whole), frame(lab, rest)
    assert (one.count(), two.count(), one.join(two, "offset").count()) == (2, 1, 1)


def test_messages_that_are_deleted_before_they_are_read(lab: Lab, peer: Peer, topic: str):
    peer.send(topic, *"abc")
    window = slice_of(peer, topic)
    peer.delete_records(topic, 0, 2)
    table(lab, topic)
    with pytest.raises(TerminalStepError, match="offsets 0 to 2: they were deleted before"):
        lab.run("ods.t", window)


@pytest.mark.usefixtures("long")
def test_a_cluster_that_is_gone_is_worth_another_try(lab: Lab, topic: str):
    with running_peer() as gone:
        gone.send(gone.create(topic), *"abc")
        window = slice_of(gone, topic)
        gone.kill()
        lab.settings["connections"] = {"broker": {"kafka": {"bootstrap.servers": gone.servers}}}
        table(lab, topic, **{"kafkaConsumer.pollTimeoutMs": 1500})
        with pytest.raises(TransientStepError, match=r"^Kafka sent nothing for 1\.5 s, .*refused"):
            lab.run("ods.t", window)


@pytest.mark.usefixtures("slow")
def test_a_cluster_that_dies_in_the_middle(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(kafka_messages, "_AT_ONCE", 100)  # of 300: a fast cluster sends them all
    with running_peer() as dying:
        dying.create("long")
        for _ in range(30):
            dying.send("long", *["x" * 10_000] * 10)
        few = {"queued.max.messages.kbytes": "1", "fetch.message.max.bytes": "1000"}
        window = slice_of(dying, "long")
        options = {"low": window.low, "high": window.high, "per_task": "300", "patience": "1"}
        reader = MessageReader({"bootstrap.servers": dying.servers, **few}, options)
        batches = reader.read(reader.partitions()[0])
        assert next(batches).num_rows < 300
        dying.kill()
        with pytest.raises(TransientStepError, match="Kafka sent nothing for 1 s, long partition"):
            list(batches)


def test_no_task_is_no_message():
    options = {"low": "{}", "high": "{}", "per_task": "1", "patience": "1"}
    reader = MessageReader({}, options)
    assert reader.partitions() == []
    assert list(reader.read(InputPartition(None))) == []


@pytest.fixture
def secret_lab(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> Lab:
    # The peer asks for no password; the client keeps it all the same.
    monkeypatch.setenv("KAFKA_PASSWORD", SECRET)
    kafka = lab.settings["connections"]["broker"]["kafka"]
    kafka |= {"sasl.username": "u", "sasl.password": "${env:KAFKA_PASSWORD}"}
    return lab


@pytest.mark.usefixtures("long")
def test_secrets_show_in_no_plan_and_no_setting(
    secret_lab: Lab, peer: Peer, topic: str, capfd: Any
):
    peer.send(topic, *"abc")
    table(secret_lab, topic)
    window = slice_of(peer, topic)
    found = frame(secret_lab, window)
    found.explain("extended")
    assert found.count() == 3
    secret_lab.run("ods.t", window)
    spark = secret_lab.spark
    store = spark._jsparkSession.sharedState().statusStore()
    executions = store.executionsList()
    texts = [executions.apply(n).physicalPlanDescription() for n in range(executions.size())]
    assert any("BatchScan kafka_broker" in text for text in texts)
    texts += [executions.apply(n).details() for n in range(executions.size())]
    texts += [str(found._jdf.queryExecution()), str(found._jdf.toJSON())]
    texts += [f"{name}={value}" for name, value in spark.sparkContext.getConf().getAll()]
    texts += [*capfd.readouterr()]
    assert not [text for text in texts if SECRET in text]


def test_secrets_show_in_no_error(secret_lab: Lab, peer: Peer, topic: str, capfd: Any):
    peer.send(topic, *"abc")
    window = slice_of(peer, topic)
    peer.delete_records(topic, 0, 2)
    table(secret_lab, topic)
    with pytest.raises(Exception, match="were deleted") as caught:
        frame(secret_lab, window).collect()  # as Spark tells it, before anything is redacted
    told = [str(caught.value), repr(vars(caught.value)), *capfd.readouterr()]
    told.append(str(caught.value._origin))
    assert not [text for text in told if SECRET in text]


@pytest.mark.usefixtures("long")
def test_a_password_that_is_refused_is_no_reason_to_try_again(peer: Peer):
    settings = {
        "bootstrap.servers": peer.servers,
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "PLAIN",
        "sasl.username": "u",
        "sasl.password": SECRET,
    }
    with pytest.raises(TerminalStepError) as caught:
        read_range(settings, ["t"], None)
    assert SECRET not in str(caught.value)


def test_a_connection_to_kafka_needs_no_jdbc_driver(lab: Lab):
    assert _drivers(lab.project) == set()


def test_only_slices_with_both_ends_can_be_read(lab: Lab, peer: Peer, topic: str):
    table(lab, topic)
    for window in (day(1), Slice.nth(0, "earliest", None, UTC)):
        with pytest.raises(TerminalStepError, match="offset range with both ends"):
            frame(lab, window)


def test_unknown_options_are_refused(lab: Lab, peer: Peer, topic: str):
    table(lab, topic, startingOffsets="earliest")
    with pytest.raises(TerminalStepError, match="startingOffsets; set settings of the client"):
        frame(lab, slice_of(peer, topic))


def test_sparks_connector_is_used_where_it_is_installed(
    lab: Lab, peer: Peer, topic: str, monkeypatch: pytest.MonkeyPatch
):
    """Its jar is on no registry that the tests reach, so Spark can only be asked for it."""
    assert not kafka_source._has_connector(lab.spark)
    monkeypatch.setattr(kafka_source, "_has_connector", lambda spark: True)
    table(lab, topic)
    with pytest.raises(Exception, match="Failed to find data source: kafka"):
        frame(lab, slice_of(peer, topic))


def test_settings_as_kafkas_client_in_java_spells_them():
    given = {
        "bootstrap.servers": "b:9092",
        "security.protocol": "sasl_ssl",
        "sasl.mechanisms": "SCRAM-SHA-512",
        "sasl.username": "u",
        "sasl.password": 'a"b',
    }
    assert java_settings(given) == {
        "isolation.level": "read_committed",
        "bootstrap.servers": "b:9092",
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.jaas.config": "org.apache.kafka.common.security.scram.ScramLoginModule required "
        'username="u" password="a\\"b";',
    }
    assert java_settings({"bootstrap.servers": "b", "ssl.ca.location": "/ca.pem"}) is None


WITHOUT_US = """
import pickle, sys
class NotInstalled:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "logdriven_dagster":
            raise ModuleNotFoundError(name)
sys.meta_path.insert(0, NotInstalled())
reader = pickle.load(sys.stdin.buffer)
for part in reader.partitions():
    for batch in reader.read(part):
        print(*(value.decode() for value in batch["value"].to_pylist()))
"""


@pytest.mark.usefixtures("slow")
def test_workers_that_have_none_of_our_modules_read_messages(peer: Peer, topic: str):
    from pyspark import cloudpickle

    import logdriven_dagster

    peer.send(topic, *(f"m{n}" for n in range(3)))
    window = slice_of(peer, topic)
    options = {"low": window.low, "high": str(window.high), "per_task": "2", "patience": "9"}
    cloudpickle.register_pickle_by_value(logdriven_dagster)
    try:
        sent = cloudpickle.dumps(MessageReader({"bootstrap.servers": peer.servers}, options))
    finally:
        cloudpickle.unregister_pickle_by_value(logdriven_dagster)
    line = [sys.executable, "-c", WITHOUT_US]
    read = subprocess.run(line, input=sent, capture_output=True, cwd="/", check=True)
    assert read.stdout.decode().split() == ["m0", "m1", "m2"]
