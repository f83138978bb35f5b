"""Orders that are changed late reach the day that they were made on. Source: issue 16, A5."""

import pytest

from tests.builders import at

pytestmark = pytest.mark.usefixtures("spark")

ORDERS = """
    table: ods.orders
    period: 1 day
    default_start: 2022-01-01
    steps:
      - step: load
        source:
          {type: csv, path: data/orders.csv, header: true,
           columns: "id INT, created TIMESTAMP, updated TIMESTAMP, state STRING",
           window_column: updated}
        target: {type: iceberg, mode: upsert, key: [id]}
"""
FACTS = """
    table: dwd.fact_orders
    period: 1 day
    default_start: 2022-01-01
    lookback: 3
    depends_on: [{table: ods.orders, read: all}]
    steps:
      - step: load
        sql: >-
          SELECT id, created, state FROM ods.orders
          WHERE created >= :data_range_start AND created < :data_range_end
        target: {type: iceberg, window_column: created}
"""
ORDERS_A_DAY = 6
DAYS = 8


def shop(now: int) -> list[str]:
    """The shop's table at the beginning of a day: each order as it is since its last change.

    An order is made, and paid after as many days as its number says, three at most.
    """
    lines = []
    for n in range(DAYS * ORDERS_A_DAY):
        made, paid = n // ORDERS_A_DAY + 1, n // ORDERS_A_DAY + 1 + n % 4
        if made < now:
            day, state = (paid, "paid") if paid < now else (made, "new")
            lines.append(f"{n},2022-01-{made:02} 10:00:00,2022-01-{day:02} 11:00:00,{state}")
    return lines


def run_on(world, day: int):
    world.write("data/orders.csv", "\n".join(["id,created,updated,state", *shop(day)]))
    world.catch_up(now=at(f"2022-01-{day:02} 00:30"), tables=["ods.orders", "dwd.fact_orders"])


def expected(day: int):
    rows = (line.split(",") for line in shop(day))
    return sorted((int(n), created, state) for n, created, _, state in rows)


def found(world):
    rows = world.rows("dwd.fact_orders")
    return sorted((n, f"{created:%Y-%m-%d %H:%M:%S}", state) for n, created, state in rows)


def set_up(world):
    world.write("tables/orders.yaml", ORDERS)
    world.write("tables/facts.yaml", FACTS)


@pytest.mark.usefixtures("long")
def test_no_order_is_missing_day_by_day_nor_after_an_outage(world):
    set_up(world)
    for day in (3, 4, 5, 8):
        run_on(world, day)
        assert found(world) == expected(day)
    assert not world.catch_up(now=at("2022-01-08 00:30"), tables=["dwd.fact_orders"])
    again = [row for row in world.log("dwd.fact_orders") if row["run_trigger"] == "lookback"]
    assert [row["data_range_start"][6:8] for row in again[:3]] == ["01", "02", "01"]


@pytest.mark.usefixtures("long")
def test_nor_after_a_first_catch_up_that_comes_late(world):
    set_up(world)
    run_on(world, 8)
    assert found(world) == expected(8)
    assert {row["run_trigger"] for row in world.log("dwd.fact_orders")} == {"pending"}
