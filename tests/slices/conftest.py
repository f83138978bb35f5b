"""A shop whose orders live in a database, loaded along keys."""

from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
import yaml

from tests.builders import at
from tests.execution.conftest import World


def noon(day: int) -> Any:
    """The data clock at noon of a day of January 2022; tables look once a day."""
    return at(f"2022-01-{day:02} 12:00")


class Shop(World):
    """A project with the table `ods.orders`, and its source."""

    def __init__(self, root: Path, spark: Any, url: sa.URL | str) -> None:
        self.root, self.spark = root, spark
        self.source = sa.create_engine(url, poolclass=sa.NullPool)
        text = self.source.url.render_as_string(hide_password=False)
        settings = {"project": "shop", "connections": {"shop": {"url": text}}}
        self.write("logdriven.yaml", yaml.safe_dump(settings))

    def orders(self, *, kind: str = "BIGINT") -> None:
        """Create the source's table."""
        self.execute(f"CREATE TABLE orders (id {kind} PRIMARY KEY, item VARCHAR(60))")

    def place(self, *ids: int | str) -> None:
        """Add orders to the source."""
        with self.source.begin() as conn:
            for n in ids:
                conn.execute(sa.text("INSERT INTO orders VALUES (:n, :i)"), {"n": n, "i": f"#{n}"})

    def execute(self, statement: str) -> None:
        with self.source.begin() as conn:
            conn.execute(sa.text(statement))

    def table(self, source: dict[str, Any] | None = None, **fields: Any) -> None:
        """Write the file of `ods.orders`."""
        origin = {"type": "jdbc", "connection": "shop", "table": "orders", "key_column": "id"}
        target = fields.pop("target", {"type": "iceberg"})
        step = {"step": "load", "source": {**origin, **(source or {})}, "target": target}
        values = {"table": "ods.orders", "incremental_type": "auto_inc_id", "period": "1 day"}
        self.write("tables/orders.yaml", yaml.safe_dump({**values, "steps": [step], **fields}))

    def run(self, day: int, **options: Any) -> list[Any]:
        """Catch up at noon of a day of January 2022."""
        return self.catch_up(now=noon(day), **options)

    def ranges(self, table: str = "ods.orders") -> list[tuple[str, str | None, str]]:
        """Start, end and status of every attempt, in the order in which they ran."""
        names = ("data_range_start", "data_range_end", "status")
        return [tuple(row[name] for name in names) for row in self.log(table)]  # type: ignore[misc]

    def errors(self) -> list[str]:
        """What went wrong so far."""
        return [s["error"] for row in self.log() for s in row["steps"] if s["error"]]

    def ids(self, table: str = "ods.orders") -> list[Any]:
        return [row[0] for row in self.rows(table)]


@pytest.fixture
def shop(tmp_path: Path, spark: Any) -> Shop:
    """Its source is SQLite."""
    shop = Shop(tmp_path, spark, f"sqlite:///{tmp_path / 'shop.db'}")
    shop.orders()
    shop.table()
    return shop
