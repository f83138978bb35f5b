"""A small project on real Spark whose windows may run together."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from logdriven_dagster.engine import WindowSession
from tests.builders import at
from tests.execution.conftest import World

LINES = [f"2022-01-0{day},{day * 10 + n}" for day in range(1, 7) for n in range(day)]
NOW = at("2022-01-07 14:00")
POINTS = [
    (WindowSession, "stage", "after"),
    (WindowSession, "publish", "before"),
    (WindowSession, "publish", "after"),
]
EXPIRE = "UPDATE job_log SET lease_expires_at = '2000-01-01' WHERE status = 'RUNNING'"


def hurt(monkeypatch: pytest.MonkeyPatch, point: tuple[Any, str, str], what: Any) -> None:
    """Let a method raise, before or after it has done its work."""
    owner, name, instant = point
    original = getattr(owner, name)

    def hurting(*args: Any, **kwargs: Any) -> Any:
        if instant == "after":
            original(*args, **kwargs)
        raise what

    monkeypatch.setattr(owner, name, hurting)


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
def world(tmp_path: Path, spark: Any) -> World:
    return World(tmp_path, spark)


@pytest.fixture
def numbers(world: World) -> World:
    """Six days of numbers, none loaded yet."""
    (world.root / "tables/sums.yaml").unlink()
    world.write("tables/numbers.yaml", together())
    world.numbers(*LINES)
    return world


@pytest.fixture
def database(numbers: World, database_url: sa.URL) -> World:
    """The same, with a connection `shop` to a database."""
    url = database_url.render_as_string(hide_password=False)
    numbers.write("logdriven.yaml", f"project: world\nconnections: {{shop: {{url: '{url}'}}}}")
    return numbers


@pytest.fixture
def sql_of_shop(database_url: sa.URL) -> Callable[[str], list[Any]]:
    """What a query finds in that database."""

    def run(sql: str) -> list[Any]:
        engine = sa.create_engine(database_url, poolclass=sa.NullPool)
        with engine.begin() as conn:
            result = conn.execute(sa.text(sql))
            return [tuple(row) for row in result] if result.returns_rows else []

    return run
