"""The views of the example arrive once each and count in the hour in which they happened."""

from collections import Counter, defaultdict
from datetime import timedelta
from typing import Any

import pytest

from logdriven_dagster.examples.events import TOPIC
from logdriven_dagster.examples.view_history import rounds
from tests.examples.conftest import Example, run_example
from tests.plugins.kafka.peer import running_peer

FIRST, SECOND = rounds()
VIEWS = [*FIRST.views, *SECOND.views]
MESSAGES = [*FIRST.messages(), *SECOND.messages()]


def test_the_history_has_what_the_example_is_about():
    counted = FIRST.now.replace(minute=0)
    late = [view for view in SECOND.views if view.at < counted]
    assert len(late) > 5
    assert any(view.at.hour + 1 < counted.hour for view in late)
    waited = [v for v in FIRST.views if v.arrived > v.at.replace(minute=0) + timedelta(hours=1)]
    assert any(v.arrived.minute < 15 and v.arrived - v.at < timedelta(minutes=15) for v in waited)
    assert len(MESSAGES) > len(VIEWS)
    assert rounds() == (FIRST, SECOND)


@pytest.mark.usefixtures("long")
@pytest.mark.usefixtures("spark_processes")
def test_every_message_once_and_the_views_of_each_page_and_hour(tmp_path: Any, monkeypatch: Any):
    done = run_example("events", "--folder", str(tmp_path / "events"))
    assert done.returncode == 0, done.stdout + done.stderr
    assert "A mock of a Kafka broker listens at 127.0.0.1" in done.stdout
    monkeypatch.setenv("EVENTS_BOOTSTRAP", "gone:9092")
    example = Example(tmp_path / "events")

    rows = example.rows("ods.views")
    places = {(row["partition"], row["offset"]) for row in rows}
    assert len(places) == len(rows) == len(MESSAGES)
    readable = [row for row in rows if row["unreadable"] is None]
    assert Counter(
        (row["at"].timestamp(), row["visitor"], row["page"], row["ms"]) for row in readable
    ) == Counter((view.at.timestamp(), view.visitor, view.page, view.ms) for view in VIEWS)
    assert Counter(round(row["arrived_at"].timestamp() * 1000) for row in rows) == Counter(
        round(arrived.timestamp() * 1000) for _, _, arrived in MESSAGES
    )

    groups = defaultdict(list)
    for view in VIEWS:
        if view.at < SECOND.now.replace(minute=0):
            groups[f"{view.at:%Y-%m-%d %H}:00", view.page].append(view)
    query = "SELECT substr(hour, 1, 16), page, views, visitors, total_ms FROM hourly_views"
    figures = example.query("reports", query)
    assert sorted(figures) == sorted(
        (*key, len(views), len({v.visitor for v in views}), sum(v.ms for v in views))
        for key, views in groups.items()
    )

    assert sum(example.written("ods.views")) == len(MESSAGES)
    assert max(example.written("ods.views")) == 1500
    assert sum(example.written("dws.hourly_views")) == len(figures)
    again = Counter(row["data_range_start"][8:10] for row in example.log("dws.hourly_views"))
    assert sorted(hour for hour, attempts in again.items() if attempts > 1) == ["07", "08", "09"]


@pytest.mark.usefixtures("slow")
def test_a_topic_with_messages_is_left_alone(tmp_path: Any):
    with running_peer() as peer:
        peer.send(peer.create(TOPIC), "precious")
        words = ("--folder", str(tmp_path), "--bootstrap", peer.servers)
        done = run_example("events", *words)
    assert done.returncode == 2
    assert f"the topic {TOPIC} already has messages" in done.stderr


@pytest.mark.usefixtures("long")
def test_a_broker_that_is_not_there_is_reported(tmp_path: Any):
    done = run_example("events", "--folder", str(tmp_path), EVENTS_BOOTSTRAP="127.0.0.1:1")
    assert done.returncode == 2
    assert done.stderr.startswith("Kafka: ") or "\nKafka: " in done.stderr
