"""Tests that `logdriven test --create` writes from real rows."""

from pathlib import Path
from typing import Any

import pytest

from logdriven_dagster.errors import UsageError
from logdriven_dagster.plugins.table_tests.creation import Creation
from logdriven_dagster.testing import Sandbox
from tests.plugins.table_tests.conftest import Bench


@pytest.fixture
def shop(bench: Bench) -> Bench:
    bench.table("""
        table: ods.orders
        steps:
          - step: load
            source:
              type: csv
              path: orders.csv
              columns: id INT, ordered_at TIMESTAMP, amount DECIMAL(12, 2), note STRING
              window_column: ordered_at
            target: {type: iceberg, window_column: ordered_at}
    """)
    bench.write(
        "orders.csv",
        """
        1,2022-01-01 23:59:59,1,early
        2,2022-01-02 00:00:00,5.10,"a ""quoted"": #text"
        3,2022-01-02 12:00:00,,s3cr3t
        4,2022-01-02 13:00:00,7,left out
        """,
    )
    return bench


def create(shop: Bench, spark: Any) -> Path:
    runner = Sandbox(shop.folder, spark=lambda: spark).runner
    table = runner.project.table("ods.orders")
    return Creation(runner, table, table.grid.window(1), 2).write()


def test_a_test_has_the_first_rows_of_the_window_and_passes(
    shop: Bench, spark: Any, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("SHOP_PASSWORD", "s3cr3t")
    shop.write("logdriven.yaml", "project: shop\nvariables: {p: '${env:SHOP_PASSWORD}'}")
    path = create(shop, spark)
    assert path.name == "ods.orders_2022-01-02.yaml"
    text = path.read_text()
    assert "s3cr3t" not in text
    assert "early" not in text
    assert "left out" not in text
    assert "amount: 5.10" in text
    assert not shop.problems()
    with pytest.raises(UsageError, match="exists already"):
        create(shop, spark)
