"""The orders of the example arrive once each, whatever comes late; its figures are plain sums."""

from collections import Counter, defaultdict
from decimal import Decimal
from typing import Any

import pytest

from logdriven_dagster.examples.shop_history import ZONE, ShopOrder, rounds
from tests.examples.conftest import Example, run_example

FIRST, SECOND = rounds()
ORDERS = [*FIRST.orders, *SECOND.orders]


def day_of(order: ShopOrder) -> str:
    return str(order.created_at.astimezone(ZONE).date())


def city_of_each_order() -> dict[int, str]:
    """Where its customer lived as far as the shop knew when the order's round was loaded."""
    cities: dict[int, str] = {}
    found: dict[int, str] = {}
    for done in (FIRST, SECOND):
        cities |= {c.id: c.city for c in sorted(done.customers, key=lambda c: c.updated_at)}
        found |= {order.id: cities[order.customer] for order in done.orders}
    return found


@pytest.fixture
def shop(tmp_path: Any, postgres_url: Any, monkeypatch: Any, spark_processes: None) -> Example:
    url = postgres_url.render_as_string(hide_password=False)
    done = run_example("orders", "--folder", str(tmp_path / "orders"), ORDERS_URL=url)
    assert done.returncode == 0, done.stdout + done.stderr
    monkeypatch.setenv("ORDERS_URL", url)
    return Example(tmp_path / "orders")


def test_the_history_has_what_the_example_is_about():
    assert [order.id for order in ORDERS] == list(range(1, len(ORDERS) + 1))
    assert any(order.created_at < FIRST.now for order in SECOND.orders)
    assert any(customer.updated_at < FIRST.now for customer in SECOND.customers)
    assert {c.id for c in SECOND.customers} < {c.id for c in FIRST.customers}
    assert rounds() == (FIRST, SECOND)


@pytest.mark.usefixtures("long")
def test_every_order_once_and_the_revenue_of_each_city_and_day(shop: Example):
    cities = city_of_each_order()
    loaded = {
        row["id"]: (row["customer"], row["city"], row["amount"]) for row in shop.rows("dwd.orders")
    }
    assert loaded == {o.id: (o.customer, cities[o.id], o.amount) for o in ORDERS}
    assert sorted(row["id"] for row in shop.rows("ods.orders")) == [o.id for o in ORDERS]

    revenue: dict[tuple[str, str], Decimal] = defaultdict(Decimal)
    orders = Counter((day_of(order), cities[order.id]) for order in ORDERS)
    for order in ORDERS:
        revenue[day_of(order), cities[order.id]] += order.amount
    query = "SELECT day, city, orders, revenue FROM logdriven_example.city_revenue"
    figures = shop.query("shop", query)
    assert sorted((str(day), city, n, total) for day, city, n, total in figures) == sorted(
        (*key, orders[key], revenue[key]) for key in orders
    )

    changes = [*FIRST.customers, *SECOND.customers]
    newest = {c.id: c for c in sorted(changes, key=lambda c: c.updated_at)}
    customers = shop.rows("ods.customers")
    assert {(r["id"], r["name"], r["city"], r["updated_at"]) for r in customers} == {
        (c.id, c.name, c.city, c.updated_at) for c in newest.values()
    }
    assert len(customers) == len(newest)

    assert sum(shop.written("ods.orders")) == sum(shop.written("dwd.orders")) == len(ORDERS)
    assert sum(shop.written("dws.city_revenue")) == len(figures)
    assert [row["data_range_end"] for row in shop.log("ods.orders")] == [
        "500",
        "750",
        "1250",
        str(len(ORDERS)),
    ]
    again = Counter(row["data_range_start"][:8] for row in shop.log("dws.city_revenue"))
    assert sorted(day for day, attempts in again.items() if attempts > 1) == [
        "20260302",
        "20260303",
        "20260304",
    ]


@pytest.mark.usefixtures("slow")
def test_a_folder_of_anything_else_is_refused(tmp_path: Any):
    (tmp_path / "precious").write_text("data")
    done = run_example(
        "orders", "--folder", str(tmp_path), "--url", "postgresql://nobody@nowhere/x"
    )
    assert (done.returncode, "is not an empty folder" in done.stderr) == (2, True)
    assert (tmp_path / "precious").read_text() == "data"


@pytest.mark.usefixtures("slow")
def test_a_database_that_is_not_there_is_reported_without_its_password(tmp_path: Any):
    url = "postgresql://u:s3cr3t@127.0.0.1:1/shop"
    done = run_example("orders", "--folder", str(tmp_path), ORDERS_URL=url)
    assert done.returncode == 2
    assert "does not answer" in done.stderr
    assert "s3cr3t" not in done.stdout + done.stderr


@pytest.mark.usefixtures("slow")
def test_only_postgresql_holds_the_shop(tmp_path: Any):
    done = run_example("orders", "--folder", str(tmp_path), "--url", "sqlite:///shop.db")
    assert (done.returncode, "the shop's database is PostgreSQL" in done.stderr) == (2, True)
