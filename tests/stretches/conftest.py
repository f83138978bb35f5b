"""A small project on real Spark whose windows may run together."""

from typing import Any

import pytest

from tests.builders import at
from tests.engine.conftest import spark
from tests.execution.conftest import World, world

__all__ = ["spark", "world"]

LINES = [f"2022-01-0{day},{day * 10 + n}" for day in range(1, 7) for n in range(day)]
NOW = at("2022-01-07 14:00")


def together(target: str = "{type: iceberg, window_column: day}", **fields: Any) -> str:
    """A table of numbers, all of whose windows may run in one pass."""
    more = "".join(f"{name}: {value}\n" for name, value in fields.items())
    return f"""table: ods.numbers
period: 1 day
default_start: 2022-01-01
batch_size: all
steps:
  - step: load
    source:
      type: csv
      path: data/numbers.csv
      header: true
      columns: "day DATE, n STRING"
      window_column: day
    sql: SELECT day, CAST(n AS INT) AS n FROM source
    target: {target}
{more}"""


@pytest.fixture
def numbers(world: World) -> World:
    """Six days of numbers, none loaded yet."""
    (world.root / "tables/sums.yaml").unlink()
    world.write("tables/numbers.yaml", together())
    world.numbers(*LINES)
    return world
