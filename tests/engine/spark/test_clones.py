"""Windows over Spark Connect share the code that Spark compiles, and nothing else."""

from typing import Any

import pytest

from logdriven_dagster.engine.spark.connect import clones
from logdriven_dagster.engine.spark.mode import is_connect
from logdriven_dagster.engine.spark.session import fresh_session
from tests.builders import day
from tests.engine.laboratory import Lab

pytestmark = pytest.mark.connect

LOADER = """
    SELECT reflect('org.apache.spark.util.Utils', 'getContextOrSparkClassLoader') AS driver,
           id, (SELECT any_value(loader) FROM (
               SELECT reflect('org.apache.spark.util.Utils', 'getContextOrSparkClassLoader')
               AS loader FROM range(1))) AS executor
    FROM range(1)
"""
ISOLATION = "spark.sql.artifact.isolation.enabled"
PYTHON = f"""
def build(spark):
    return spark.sql("SELECT '{{}}' AS isolated".format(spark.conf.get("{ISOLATION}")))
"""


@pytest.fixture(autouse=True)
def _over_connect(spark: Any) -> None:
    if not is_connect(spark):
        pytest.skip("sessions of a JVM of ours share its code anyway")


def session(lab: Lab, **options: Any) -> Any:
    return fresh_session(lab.spark, lab.project, **{"brings_code": False, **options})


def loaders(lab: Lab, **options: Any) -> Any:
    """The class loaders by which a session of its own loads what Spark compiles."""
    with session(lab, **options) as own:
        (row,) = own.sql(LOADER).collect()
    return row


def test_sessions_that_bring_no_code_have_one_class_loader(lab: Lab):
    assert loaders(lab) == loaders(lab)


def test_one_that_may_bring_code_keeps_it_to_itself(lab: Lab):
    assert loaders(lab, brings_code=True) != loaders(lab, brings_code=True)


def test_a_table_with_a_python_function_may_bring_code(lab: Lab):
    lab.file("tables/build.py", PYTHON)
    lab.table("ods.t", {"python": "build.py:build", "target": {"type": "parquet"}})
    lab.run("ods.t", day(1))
    assert lab.rows("ods.t") == [("true",)]


def test_views_functions_and_settings_of_one_are_unknown_to_the_next(lab: Lab):
    name = "spark.sql.shuffle.partitions"
    with session(lab) as one, session(lab) as other:
        one.range(3).createOrReplaceTempView("source")
        one.sql("CREATE TEMPORARY FUNCTION twice(x INT) RETURNS INT RETURN 2 * x").collect()
        one.conf.set(name, "7")
        with session(lab) as third:
            for each in (other, third):
                assert not each.catalog.tableExists("source")
                assert not each.catalog.functionExists("twice")
                assert each.conf.get(name) != "7"


def test_a_clone_has_the_settings_that_are_asked_for(lab: Lab):
    lab.settings["timezone"] = "Asia/Tokyo"
    with session(lab, few_rows=True) as few, session(lab, few_rows=False) as many:
        assert few.conf.get("spark.sql.session.timeZone") == "Asia/Tokyo"
        assert few.conf.get("spark.sql.codegen.wholeStage") == "false"
        assert many.conf.get("spark.sql.codegen.wholeStage") == "true"


def test_a_clone_asks_nothing_before_its_first_query(lab: Lab):
    with session(lab) as own:
        assert own.client._plan_compression_algorithm is not None


def test_where_the_server_has_forgotten_what_to_clone_the_next_session_is_a_new_one(lab: Lab):
    with session(lab):
        pass
    for template in clones._templates[lab.spark].values():
        template.client.release_session()
    with session(lab) as own:
        assert own.conf.get(ISOLATION) == "true"
    with session(lab) as own:
        assert own.conf.get(ISOLATION) == "false"
