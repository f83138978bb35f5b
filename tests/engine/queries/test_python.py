"""Python transforms get what their parameters name, and give a DataFrame."""

import pytest

from logdriven_dagster.engine.spark.mode import is_connect
from logdriven_dagster.errors import TerminalStepError
from tests.builders import day
from tests.engine.laboratory import Lab

TARGET = {"type": "parquet"}


def transform(lab: Lab, code: str, **fields: object) -> str:
    lab.file("tables/transform.py", code)
    step = {"python": "transform.py:build", "target": TARGET}
    return lab.table("dwd.t", {**step, **fields}, variables={"factor": 3}, depends_on=["ods.a"])


@pytest.fixture
def upstream(lab: Lab) -> Lab:
    lab.table("ods.a", {"sql": "SELECT day(:data_range_start) AS d", "target": TARGET})
    for n in (1, 2):
        lab.run("ods.a", day(n))
    return lab


@pytest.mark.usefixtures("long")
@pytest.mark.connect
def test_parameters_are_injected_by_name(upstream: Lab):
    transform(
        upstream,
        "def build(spark, window, job_id, variables, ods_a, inputs):\n"
        "    assert set(inputs) >= {'ods_a'}\n"
        "    n = ods_a.first().d * variables['factor']\n"
        "    return spark.createDataFrame([(n, str(window), job_id)], 'n INT, w STRING, j LONG')\n",
    )
    upstream.run("dwd.t", day(2), job_id=5)
    assert upstream.rows("dwd.t") == [(6, "[2022-01-02, 2022-01-03)", 5)]


def test_the_source_and_earlier_steps_are_frames(upstream: Lab):
    upstream.file("a.txt", "x\n")
    code = "def build(source, first):\n    return source.crossJoin(first)\n"
    upstream.file("tables/transform.py", code)
    upstream.table(
        "dwd.t",
        {"step": "first", "sql": "SELECT 1 AS one"},
        {
            "source": {"type": "text", "path": "a.txt"},
            "python": "transform.py:build",
            "target": TARGET,
        },
    )
    upstream.run("dwd.t", day(1))
    assert upstream.rows("dwd.t") == [("x", 1)]


@pytest.mark.usefixtures("long")
@pytest.mark.connect
def test_functions_of_the_file_reach_python_workers(upstream: Lab):
    transform(
        upstream,
        "from pyspark.sql.functions import udf\n"
        "def twice(x):\n    return x * 2\n"
        "def build(ods_a):\n    return ods_a.select(udf(twice, 'int')('d').alias('d'))\n",
    )
    upstream.run("dwd.t", day(2))
    assert upstream.rows("dwd.t") == [(4,)]


@pytest.mark.sampled
@pytest.mark.parametrize(
    ("code", "text"),
    [
        ("def build():\n    return 1\n", "returned int, not a Spark DataFrame"),
        ("def build(nope):\n    pass\n", "no value for parameter 'nope'"),
        ("def other():\n    pass\n", "has no function build"),
        ("import nowhere_at_all\n", "No module named 'nowhere_at_all'"),
        ("def build():\n    raise KeyError('deep')\n", r"KeyError: 'deep' \(.*transform.py:2\)"),
    ],
)
def test_a_mistake_in_a_transform_is_reported(upstream: Lab, code: str, text: str):
    transform(upstream, code)
    with pytest.raises(TerminalStepError, match=text):
        upstream.run("dwd.t", day(1))


@pytest.mark.connect
def test_modules_of_the_project_reach_workers_that_cannot_import_them(lab: Lab, monkeypatch):
    lab.file("shop_rules/__init__.py", "")
    lab.file("shop_rules/words.py", "def shout(text):\n    return text.upper()\n")
    lab.file(
        "shop_rules/own.py",
        "from pyspark.sql.functions import udf\n"
        "from shop_rules.words import shout\n"
        "loud = udf(lambda text: shout(text) + '!', 'string')\n"
        "def own(spark):\n"
        "    return spark.sql(\"SELECT 'so' AS a\").select(loud('a').alias('a'))\n",
    )
    if not is_connect(lab.spark):
        pytest.skip("workers of this machine import what PYTHONPATH leads to")
    monkeypatch.syspath_prepend(lab.root)
    lab.table("ods.t", {"python": "shop_rules.own:own", "target": {"type": "iceberg"}})
    lab.run("ods.t", day(1))
    assert lab.rows("ods.t") == [("SO!",)]
