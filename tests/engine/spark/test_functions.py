"""Columns are of the kind that their session takes, also where a process has several."""

import re
from pathlib import Path
from typing import Any

import logdriven_dagster.engine
from logdriven_dagster.engine.spark import functions as sf
from logdriven_dagster.engine.spark.functions import functions_for

ENGINE = Path(logdriven_dagster.engine.__file__).parent
OF_ONE_KIND = {
    "spark/connect/queries.py",  # of Spark Connect, always
    "spark/classic/archives/workload.py",  # a process of its own
}


def test_all_of_the_engine_takes_them_from_one_module() -> None:
    found = {
        str(path.relative_to(ENGINE))
        for path in ENGINE.rglob("*.py")
        if re.search(r"from pyspark[\w.]* import functions", path.read_text())
    }
    assert found == OF_ONE_KIND


def test_without_a_session_they_are_those_of_the_process(spark: Any) -> None:
    with functions_for(spark):
        assert type(sf.lit(1)) is type(spark.range(1).id)
    assert type(sf.lit(1)) is type(spark.range(1).id)
