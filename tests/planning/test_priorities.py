"""Which tables go first among what is ready at the same instant. Checklist row D15."""

from logdriven_dagster.planning.plan import plan
from tests.builders import at, day, log, table

NOW = at("2022-01-03 12:00")


def ready(*tables, **logs):
    known = {item.table: item for item in tables}
    return [(p.table, p.window.start.day) for p in plan(known, logs, NOW).ready()]


def test_the_greater_priority_goes_first_although_its_window_is_younger_d15():
    plain = table("plain")
    urgent = table("urgent", default_start="2022-01-02", priority=1)
    assert ready(plain, urgent) == [("urgent", 2), ("plain", 1)]


def test_without_priorities_the_oldest_goes_first_d15():
    younger = table("a", default_start="2022-01-02")
    assert ready(younger, table("b")) == [("b", 1), ("a", 2)]


def test_upstreams_are_as_urgent_as_what_waits_for_them_d15():
    tables = (table("a_plain"), table("up"), table("down", depends_on=["up"], priority=5))
    assert ready(*tables)[0] == ("up", 1)


def test_upstreams_still_come_before_their_downstreams_d15():
    up = table("up", priority=-3)
    down = table("down", depends_on=["up"], priority=5)
    assert ready(up, down, up=log(day(1))) == [("down", 1), ("up", 2)]  # each is ready by itself
    tables = {"up": up, "down": down}
    order = [(p.table, p.window.start.day) for p in plan(tables, {}, NOW).windows()]
    assert order == [("up", 1), ("down", 1), ("up", 2), ("down", 2)]
