"""Orders with mistakes, written through rules."""

from pathlib import Path
from typing import Any

import pytest

from tests.quality.orders import Orders
from tests.spark_session import CONNECTIONS


@pytest.fixture
def orders(spark: Any, tmp_path: Path) -> Orders:
    return Orders(tmp_path, spark, {"connections": {"lite": CONNECTIONS["lite"]}})
