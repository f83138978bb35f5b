"""Orders with mistakes, written through rules."""

from pathlib import Path
from typing import Any

import pytest

from tests.engine.conftest import CONNECTIONS, spark
from tests.quality.orders import Orders

__all__ = ["spark"]


@pytest.fixture
def orders(spark: Any, tmp_path: Path) -> Orders:
    return Orders(tmp_path, spark, {"connections": {"lite": CONNECTIONS["lite"]}})
