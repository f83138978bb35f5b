"""Deterministic history of the shop in the example `orders`: its orders and customers."""

import random
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from decimal import Decimal
from zoneinfo import ZoneInfo

ZONE = ZoneInfo("Europe/Berlin")
CITIES = ("Berlin", "Hamburg", "Leipzig", "München", "Köln")
_NAMES = ("Ada", "Blaise", "Carl", "Emmy", "Grace", "Kurt", "Rózsa", "Sofja")
_ORDERS_A_DAY = 250
_LATE_ORDERS = 12
_FIRST_CUSTOMERS, _NEW_CUSTOMERS_A_DAY = 40, 5


@dataclass(frozen=True, slots=True)
class ShopOrder:
    """A row of `orders`; immutable after its insertion."""

    id: int
    customer: int
    amount: Decimal
    created_at: datetime
    """Time of the order; the shop may enter it days later."""


@dataclass(frozen=True, slots=True)
class Customer:
    """A version of a row of `customers`, valid from `updated_at`."""

    id: int
    name: str
    city: str
    updated_at: datetime


@dataclass(frozen=True, slots=True)
class OrderRound:
    """Changes committed before `now` and after the previous round, in this order."""

    now: datetime
    """Time at which the project runs."""
    orders: tuple[ShopOrder, ...]
    customers: tuple[Customer, ...]
    """New rows, and new versions of rows."""


def rounds() -> tuple[OrderRound, OrderRound]:
    """Return two rounds: Monday to Wednesday; Thursday and Friday with all late changes."""
    chance = random.Random(2026)  # noqa: S311 - the same history every time
    first_orders: list[ShopOrder] = []
    second_orders: list[ShopOrder] = []
    known = [_customer(n, _march(1, 9 * 60 + n)) for n in range(1, _FIRST_CUSTOMERS + 1)]
    for day in (2, 3, 4):
        first_orders += _orders_of(day, len(first_orders), len(known), chance)
        known += _register_customers(day, len(known))
    for day in (5, 6):
        second_orders += _orders_of(day, len(first_orders) + len(second_orders), len(known), chance)
    second_orders += _late_orders(len(first_orders) + len(second_orders), chance)
    return (
        OrderRound(_march(5, 30), tuple(first_orders), tuple(known)),
        OrderRound(_march(7, 30), tuple(second_orders), tuple(_changes(known))),
    )


def _orders_of(day: int, before: int, customers: int, chance: random.Random) -> Iterator[ShopOrder]:
    """Yield a day's orders, from customers who existed when it began."""
    minutes = sorted(chance.randrange(24 * 60) for _ in range(_ORDERS_A_DAY))
    for n, minute in enumerate(minutes, before + 1):
        yield ShopOrder(n, chance.randint(1, customers), _amount(chance), _march(day, minute))


def _late_orders(before: int, chance: random.Random) -> Iterator[ShopOrder]:
    """Yield orders of the market stall, placed on Tuesday and Wednesday, entered on Friday."""
    for n in range(before + 1, before + 1 + _LATE_ORDERS):
        instant = _march(3 + n % 2, 8 * 60 + chance.randrange(600))
        yield ShopOrder(n, chance.randint(1, _FIRST_CUSTOMERS), _amount(chance), instant)


def _register_customers(day: int, before: int) -> Iterator[Customer]:
    for n in range(before + 1, before + 1 + _NEW_CUSTOMERS_A_DAY):
        yield _customer(n, _march(day, 12 * 60 + n))


def _changes(known: list[Customer]) -> Iterator[Customer]:
    """Yield customers who move on Thursday and Friday, one of them twice, and two late changes.

    The late changes were made on Wednesday night, in transactions that were still open when the
    project ran.
    """
    for n in range(0, 16, 2):
        yield _move(known[n], _march(5 + n % 4 // 2, 10 * 60 + n), 1)
    yield replace(_move(known[0], _march(6, 20 * 60), 2), name="Ada-Maria")
    for n in (21, 23):
        yield _move(known[n], _march(4, 23 * 60 + n), 1)


def _move(customer: Customer, instant: datetime, distance: int) -> Customer:
    city = CITIES[(CITIES.index(customer.city) + distance) % len(CITIES)]
    return replace(customer, city=city, updated_at=instant)


def _customer(n: int, instant: datetime) -> Customer:
    return Customer(n, _NAMES[n * 3 % len(_NAMES)], CITIES[n * 7 % len(CITIES)], instant)


def _amount(chance: random.Random) -> Decimal:
    return Decimal(chance.randint(500, 25_000)) / 100


def _march(day: int, minute: int) -> datetime:
    return datetime(2026, 3, day, tzinfo=ZONE) + timedelta(minutes=minute)
