"""Runs of Dagster tell what they did: one message each, with a link to the run."""

from typing import Any

from dagster import build_sensor_context

from logdriven_dagster.execution.opening import open_runner
from tests.orchestration.world import EVENTS, World
from tests.recipients import web_server


def notified(world: World, web: Any, **fields: Any) -> World:
    world.settings = {
        **world.settings,
        "ui_url": "https://dagster.example.com",
        "recipients": {"hook": {"type": "webhook", "url": web.url}},
        "defaults": {
            **world.settings["defaults"],
            "notify": [{"to": "hook", "on": "always"}],
        },
    }
    return world.write({**EVENTS, **fields}).events(bad_day=3)


def test_a_materialized_range_is_one_message(world: World) -> None:
    with web_server() as web:
        result = notified(world, web).materialize("ods.events", "2022-01-01", "2022-01-04")
    (body,) = web.bodies
    told = [(event["window"][:10], event["event"]) for event in body["events"]]
    assert told == [("2022-01-03", "failure"), ("2022-01-01", "success"), ("2022-01-02", "success")]
    link = f"https://dagster.example.com/runs/{result.dagster_run.run_id}"
    assert {event["link"] for event in body["events"]} == {link}


def test_a_catch_up_is_one_message_and_a_tick_sends_what_a_dead_run_left(world: World) -> None:
    with web_server() as web:
        web.status = 503
        notified(world, web).catch_up(now="2022-01-03")
        assert web.bodies == []
        web.status = 200
        with open_runner(world.project).run_log.begin() as conn:
            conn.exec_driver_sql("UPDATE notification_log SET due_time = '2000-01-01 00:00:00.000'")
        definitions = world.definitions
        (sensor,) = [s for s in definitions.sensors or [] if s.name == "catch_up_sensor"]
        sensor(build_sensor_context(instance=world.instance, definitions=definitions))
    (body,) = web.bodies
    assert len(body["events"]) == 2
