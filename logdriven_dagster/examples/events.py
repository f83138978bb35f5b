"""Example of page views in a Kafka topic: exact offsets, counted by the hour, late ones included.

`python -m logdriven_dagster.examples.events --folder F [--bootstrap host:9092]` copies the project,
fills the topic `logdriven_page_views` and runs the project; then more views arrive, some of them
late, and the project runs again two hours later. Without a broker, in the option or in
EVENTS_BOOTSTRAP, it starts librdkafka's mock broker, which speaks the real protocol and ends with
the example.
"""

import argparse
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import sqlalchemy as sa

from logdriven_dagster.errors import LogdrivenError, UsageError
from logdriven_dagster.examples.demo import announce
from logdriven_dagster.examples.mock_kafka import MockKafka, running
from logdriven_dagster.examples.rounds import prepare, run, show_log, show_query
from logdriven_dagster.examples.view_history import View, ViewRound, rounds
from logdriven_dagster.plugins.kafka.settings import client_settings

EXAMPLE = Path(__file__).parent / "page_views"
TOPIC = "logdriven_page_views"
_PARTITIONS = 3
_PATIENCE_SECONDS = 8.0
HOURS = """SELECT hour, sum(views) AS views, max(visitors) AS most_visitors_of_a_page
FROM hourly_views GROUP BY hour ORDER BY hour"""


def main() -> int:
    """Run the example. Returns 0 if every view is counted."""
    parser = argparse.ArgumentParser(prog="events", description=__doc__.splitlines()[0])
    parser.add_argument("--folder", type=Path, required=True)
    default = os.environ.get("EVENTS_BOOTSTRAP")
    parser.add_argument("--bootstrap", default=default, help="EVENTS_BOOTSTRAP by default")
    arguments = parser.parse_args()
    try:
        with _servers(arguments.bootstrap) as servers:
            return demonstrate(arguments.folder.resolve(), servers)
    except LogdrivenError as error:
        sys.stderr.write(f"{error}\n")
        return 2


@contextmanager
def _servers(given: str | None) -> Iterator[str]:
    if given:
        yield given
        return
    with running(MockKafka) as cluster:
        announce(f"A mock of a Kafka broker listens at {cluster.servers}: real protocol, no disk.")
        cluster.create(TOPIC, _PARTITIONS)
        yield cluster.servers


def demonstrate(folder: Path, servers: str) -> int:
    """Fill the topic, run, let more views arrive, run again, compare with the messages sent.

    Returns the exit code.
    """
    os.environ["EVENTS_BOOTSTRAP"] = servers
    project = prepare(EXAMPLE, folder)
    (folder / "reports.db").unlink(missing_ok=True)
    settings = client_settings(project, "web")
    make_topic(settings)
    first, second = rounds()
    send(settings, first)
    announce(f"Until {first.now:%H:%M}, {len(first.views):,} views have arrived.")
    failed = run(folder, first.now)
    send(settings, second)
    announce(
        f"Until {second.now:%H:%M}, {len(second.views):,} more arrive; "
        f"{late(first, second)} of them belong to hours that have already been "
        "counted."
    )
    failed = run(folder, second.now) or failed
    show_log(folder, second.now, "dws.hourly_views")
    engine = sa.create_engine(project.connection("reports").url)
    try:
        show_query(engine, HOURS)
        return failed or compare(engine, [*first.views, *second.views], second)
    finally:
        engine.dispose()


def make_topic(settings: dict[str, str]) -> None:
    """Create the topic unless it exists.

    Raises UsageError if it contains messages or no broker answers.
    """
    from confluent_kafka import Consumer, KafkaException, TopicPartition
    from confluent_kafka.admin import AdminClient
    from confluent_kafka.cimpl import NewTopic

    admin = AdminClient({**settings})
    try:
        found = admin.list_topics(timeout=_PATIENCE_SECONDS).topics.get(TOPIC)
        if found is None:
            topic = NewTopic(TOPIC, num_partitions=_PARTITIONS)
            admin.create_topics([topic])[TOPIC].result(_PATIENCE_SECONDS)
            return
        consumer = Consumer({**settings, "group.id": "logdriven"})
        try:
            for number in found.partitions:
                place = TopicPartition(TOPIC, number)
                low, high = consumer.get_watermark_offsets(place, timeout=_PATIENCE_SECONDS)
                if high > low:
                    fix = f"delete it with kafka-topics --delete --topic {TOPIC}"
                    raise UsageError(f"the topic {TOPIC} already has messages; {fix}")
        finally:
            consumer.close()
    except KafkaException as error:
        raise UsageError(f"Kafka: {error.args[0].str()}") from None


def send(settings: dict[str, str], done: ViewRound) -> None:
    """Produce a round's messages, a visitor's always to the same partition."""
    from confluent_kafka import Producer

    producer = Producer(settings)
    for visitor, message, arrived in done.messages():
        milliseconds = round(arrived.timestamp() * 1000)
        producer.produce(TOPIC, message, key=visitor, timestamp=milliseconds)
        producer.poll(0)
    if left := producer.flush(_PATIENCE_SECONDS):
        raise UsageError(f"could not send {left} messages to Kafka")


def late(first: ViewRound, second: ViewRound) -> int:
    """Return the number of views in the second round for hours that the first one counted."""
    counted = first.now.replace(minute=0)
    return sum(view.at < counted for view in second.views)


def compare(engine: sa.Engine, views: list[View], last: ViewRound) -> int:
    """Compare the counts with the views of past hours. Returns 0 if they are equal, else 1."""
    happened = sum(view.at < last.now.replace(minute=0) for view in views)
    with engine.connect() as conn:
        counted = conn.scalar(sa.text("SELECT sum(views) FROM hourly_views"))
    verdict = "as" if counted == happened else "BUT"
    end = f"{last.now:%H}:00"
    announce(f"hourly_views: {counted:,} views, {verdict} {happened:,} happened before {end}.")
    return 0 if counted == happened else 1


if __name__ == "__main__":
    sys.exit(main())
