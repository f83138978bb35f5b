r"""Test utilities: run projects without Dagster, and windows on an engine without Spark.

A sandbox is a project in a folder of its own, with a run log in memory.

    from logdriven_dagster.testing import Sandbox

    def test_an_order_arrives_once(tmp_path):
        sandbox = Sandbox(tmp_path, copy_of="shop")
        sandbox.write("data/orders.csv", "id,at\n1,2022-01-01 10:00")
        sandbox.run("ods.orders", now="2022-01-02")
        assert sandbox.statuses("ods.orders") == {"[2022-01-01, 2022-01-02)": "SUCCESS"}
        assert sandbox.rows("ods.orders") == [{"id": 1, ...}]

A sandbox uses real Spark, real targets and a real run log. For tests of order, retries or failures,
use the null engine: it reads no rows and needs neither Spark nor Java.

    def test_sales_wait_for_orders(tmp_path):
        sandbox = Sandbox(tmp_path, copy_of="shop", engine=NullEngine())
        sandbox.engine.fail("ods.orders", "2022-01-02")
        sandbox.run(now="2022-01-04")
        assert sandbox.engine.published("dws.sales") == ["dws.sales [2022-01-01, 2022-01-02)"]
"""

from logdriven_dagster.testing.null_engine import NullEngine, Publication, null_engine
from logdriven_dagster.testing.sandbox import Sandbox, memory_run_log

__all__ = ["NullEngine", "Publication", "Sandbox", "memory_run_log", "null_engine"]
