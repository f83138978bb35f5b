"""Rules on topics and slices, and what a killed runner leaves. Checklist S36, B32."""

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from logdriven_dagster.engine.targets.garbage import find_garbage
from logdriven_dagster.runlog.observed.quality import newest
from tests.builders import day, warehouse
from tests.plugins.kafka.conftest import peer, topic
from tests.plugins.kafka.peer import Peer
from tests.plugins.kafka.topics import messages
from tests.quality.orders import DAY, Orders
from tests.slices.conftest import Shop

__all__ = ["peer", "topic"]

NULL = {"id": ["id"], "columns": {"amount": ["not_null"]}}


@pytest.mark.usefixtures("long")
def test_only_good_rows_are_sent_to_a_topic_and_the_others_are_kept_in_files(
    orders: Orders, peer: Peer, topic: str
):
    orders.settings["connections"] = {"broker": {"kafka": {"bootstrap.servers": peer.servers}}}
    sql = "SELECT CAST(id AS STRING) AS key, country AS value FROM source"
    orders.given((1, 1, "DE"), (2, 1, None), (3, 1, "FR"))
    quality = {"id": ["key"], "keep_rejected": True, "columns": {"value": ["not_null"]}}
    target = {"type": "kafka", "connection": "broker", "topic": topic}
    orders.check(quality, target, step={"sql": sql})
    assert [message.value() for message in messages(peer, topic)] == [b"DE", b"FR"]
    assert orders.rejected() == [("2", None, "not_null")]


@pytest.mark.usefixtures("long")
def test_slices_are_looked_at_like_windows(tmp_path: Path, spark: Any):
    shop = Shop(tmp_path, spark, f"sqlite:///{tmp_path}/shop.db")
    shop.orders(kind="INTEGER")
    shop.place(1, 2, 3)
    rule = {"rule": "even", "sql": "id % 2 = 0"}
    quality = {"id": ["id"], "keep_rejected": True, "rows": [rule]}
    shop.table()
    text = (tmp_path / "tables/orders.yaml").read_text()
    shop.write(
        "tables/orders.yaml", text.replace("  step: load", f"  step: load\n  quality: {quality}")
    )
    shop.run(2)
    shop.place(4, 5)
    shop.run(3)
    assert [row[0] for row in shop.rows("ods.orders")] == [2, 4]
    with shop.runner.run_log.read() as conn:
        found = newest(conn, "ods.orders", limit=5)
    counts = [attempt["rules"][0]["error_count"] for attempt in found if attempt["rules"]]
    assert counts == [1, 2]


def test_what_a_killed_runner_staged_to_be_looked_at_is_found_as_garbage(orders: Orders):
    orders.given((1, 1, "DE"), (2, None, "DE")).declare({**NULL, "keep_rejected": True})
    step = orders.project.table("ods.orders").steps[0]
    with orders.session("ods.orders", day(1)) as session:
        session.stage(step)  # and then nothing more
    leftover = warehouse(orders.project) / "_staging/ods.orders/7-step_1__rows"
    leftover.mkdir(parents=True)
    found = find_garbage(orders.project, lambda *_: False, timedelta(0))
    places = {item.location.partition("/warehouse/")[2].split("/")[0:2][-1] for item in found}
    assert {"orders", "orders__rejected", "ods.orders"} <= places


def test_a_window_that_was_discarded_leaves_no_rejected_rows(orders: Orders):
    orders.given((1, 1, "DE"), (2, None, "DE")).declare({**NULL, "keep_rejected": True})
    with orders.session("ods.orders", DAY) as session:
        session.stage(orders.project.table("ods.orders").steps[0])
        session.discard()
    assert not list(warehouse(orders.project).rglob("*.parquet"))
