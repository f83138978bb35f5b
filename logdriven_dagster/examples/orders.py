"""Example of an order system in PostgreSQL: keys, changed rows, batches, late orders.

`python -m logdriven_dagster.examples.orders --folder F [--url postgresql://…]` copies the project,
recreates the schema `logdriven_example` in the database, fills it and runs the project; then the
shop continues, and the project runs again two days later. Without a URL, in the option or in
ORDERS_URL, it starts a private server, which ends with the example.
"""

import argparse
import os
import sys
from contextlib import nullcontext
from pathlib import Path

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import insert

from logdriven_dagster.config.project import Project
from logdriven_dagster.errors import LogdrivenError, UsageError
from logdriven_dagster.examples.demo import announce
from logdriven_dagster.examples.private_postgres import private_postgres
from logdriven_dagster.examples.rounds import prepare, run, show_log, show_query
from logdriven_dagster.examples.shop_history import OrderRound, rounds

EXAMPLE = Path(__file__).parent / "order_system"
SCHEMA = "logdriven_example"
_TABLES = sa.MetaData(SCHEMA)
ORDERS = sa.Table(
    "orders",
    _TABLES,
    sa.Column("id", sa.BigInteger, sa.Identity(), primary_key=True),
    sa.Column("customer", sa.BigInteger, nullable=False),
    sa.Column("amount", sa.Numeric(10, 2), nullable=False),
    sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
)
CUSTOMERS = sa.Table(
    "customers",
    _TABLES,
    sa.Column("id", sa.BigInteger, primary_key=True, autoincrement=False),
    sa.Column("name", sa.Text, nullable=False),
    sa.Column("city", sa.Text, nullable=False),
    sa.Column("updated_at", sa.DateTime(timezone=True), nullable=False, index=True),
)
REVENUE = f"""SELECT city, sum(orders) AS orders, sum(revenue) AS revenue
FROM {SCHEMA}.city_revenue GROUP BY city ORDER BY revenue DESC"""  # noqa: S608 - our own names


def main() -> int:
    """Run the example. Returns 0 if the revenue of every order is counted."""
    parser = argparse.ArgumentParser(prog="orders", description=__doc__.splitlines()[0])
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--url", default=os.environ.get("ORDERS_URL"), help="ORDERS_URL by default")
    arguments = parser.parse_args()
    try:
        with nullcontext(arguments.url) if arguments.url else private_postgres() as url:
            return demonstrate(arguments.folder.resolve(), url)
    except LogdrivenError as error:
        sys.stderr.write(f"{error}\n")
        return 2


def demonstrate(folder: Path, url: str) -> int:
    """Fill the shop, run, let the shop continue, run again, compare with the shop.

    Returns the exit code.
    """
    os.environ["ORDERS_URL"] = url
    project = prepare(EXAMPLE, folder)
    engine = open_shop(project)
    first, second = rounds()
    try:
        change(engine, first)
        announce(f"The shop has {len(first.orders)} orders by {len(first.customers)} customers.")
        failed = run(folder, first.now)
        change(engine, second)
        announce(
            f"Two days later: {len(second.orders)} more orders, some of them for "
            "finished days; customers moved, and two changes of Wednesday night arrive."
        )
        failed = run(folder, second.now) or failed
        show_log(folder, second.now, "dws.city_revenue")
        show_query(engine, REVENUE)
        return failed or compare(engine)
    finally:
        engine.dispose()


def open_shop(project: Project) -> sa.Engine:
    """Return the shop's database with empty tables.

    Raises UsageError if it is not PostgreSQL or cannot be reached.
    """
    url = project.connection("shop").url
    if url.get_backend_name() != "postgresql":
        raise UsageError("the shop's database is PostgreSQL: --url postgresql://user@host/name")
    engine = sa.create_engine(url)
    try:
        with engine.begin() as conn:
            conn.execute(sa.schema.DropSchema(SCHEMA, cascade=True, if_exists=True))
            conn.execute(sa.schema.CreateSchema(SCHEMA))
            _TABLES.create_all(conn)
    except sa.exc.OperationalError as error:
        raise UsageError(f"the shop's database does not answer: {error.orig}") from None
    return engine


def change(engine: sa.Engine, done: OrderRound) -> None:
    """Apply a round's changes to the shop; PostgreSQL numbers the orders."""
    orders = [
        {"customer": o.customer, "amount": o.amount, "created_at": o.created_at}
        for o in done.orders
    ]
    upsert = insert(CUSTOMERS)
    newest = {name: upsert.excluded[name] for name in ("name", "city", "updated_at")}
    with engine.begin() as conn:
        conn.execute(sa.insert(ORDERS), orders)
        for c in done.customers:
            values = {"id": c.id, "name": c.name, "city": c.city, "updated_at": c.updated_at}
            conn.execute(upsert.on_conflict_do_update(index_elements=["id"], set_=newest), values)


def compare(engine: sa.Engine) -> int:
    """Compare the figures with the shop's orders. Returns 0 if the revenue is equal, else 1."""
    figures = f"SELECT sum(orders), sum(revenue) FROM {SCHEMA}.city_revenue"  # noqa: S608 - ours
    with engine.connect() as conn:
        counted = tuple(conn.execute(sa.text(figures)).one())
        query = sa.select(sa.func.count(), sa.func.sum(ORDERS.c.amount)).select_from(ORDERS)
        placed = tuple(conn.execute(query).one())
    verdict = "as" if counted == placed else "BUT"
    announce(
        f"city_revenue: {counted[0]:,} orders, {counted[1]:,} €, "
        f"{verdict} the shop has {placed[0]:,} orders, {placed[1]:,} €."
    )
    return 0 if counted == placed else 1


if __name__ == "__main__":
    sys.exit(main())
