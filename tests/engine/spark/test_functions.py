"""Columns are of the kind that their session takes, also where a process has several."""

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

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


@pytest.mark.usefixtures("slow")
def test_a_module_that_names_them_at_its_top_loads_no_pyspark() -> None:
    line = f"from {sf.__name__.rpartition('.')[0]} import functions as sf"
    modules = [
        f"logdriven_dagster.engine.{'.'.join(path.relative_to(ENGINE).with_suffix('').parts)}"
        for path in ENGINE.rglob("*.py")
        if f"\n{line}\n" in path.read_text()
    ]
    assert len(modules) > 20
    assert not [path for path in ENGINE.rglob("*.py") if f" {line}" in path.read_text()]
    program = f"import sys; import {', '.join(modules)}; sys.exit('pyspark' in sys.modules)"
    subprocess.run([sys.executable, "-c", program], check=True)


def test_without_a_session_they_are_those_of_the_process(spark: Any) -> None:
    with functions_for(spark):
        assert type(sf.lit(1)) is type(spark.range(1).id)
    assert type(sf.lit(1)) is type(spark.range(1).id)
