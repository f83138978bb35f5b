"""The work that a catch-up expects: what earlier windows took, for those that it plans."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from logdriven_dagster.execution.catching_up.expected_work import expect_work
from tests.builders import at
from tests.patience import PATIENCE


def expected(world, now, *tables):
    return expect_work(world.runner.run_log, world.runner.plan(at(now), tables or None))


def run(world, now, *tables):
    for _ in world.runner.catch_up(at(now), tables or None):
        pass


def test_nothing_is_expected_of_a_table_that_has_never_run(world):
    assert expected(world, "2022-01-04", "ods.numbers") is None
    run(world, "2022-01-04", "ods.numbers")
    assert expected(world, "2022-01-05", "ods.numbers") is not None
    assert expected(world, "2022-01-05") is None, "dws.sums has not run"


def test_as_many_rows_are_expected_as_earlier_windows_read(world):
    rows = {"2022-01-01": 10, "2022-01-02": 1000, "2022-01-03": 40}
    world.steps["ods.numbers"] = lambda run, _step: rows[f"{run.window.start:%Y-%m-%d}"]
    run(world, "2022-01-04", "ods.numbers")
    work = expected(world, "2022-01-06", "ods.numbers")
    assert work.rows == 80, "two windows of 40 rows, the median"
    assert 0 < work.seconds < 60


def test_nothing_is_expected_of_a_long_catch_up(world):
    run(world, "2022-01-02", "ods.numbers")
    assert expected(world, "2022-04-11", "ods.numbers").rows > 0
    assert expected(world, "2022-04-13", "ods.numbers") is None


OPTIONS = """
    from pathlib import Path

    def rows(spark, run=None):
        options = spark.sparkContext.getConf().get("spark.driver.extraJavaOptions")
        with (Path(__file__).parent / "options.txt").open("a") as file:
            file.write(str("-XX:TieredStopAtLevel=1" in options.split()) + "\\n")
        return spark.range(3)
"""
DAILY = """
    table: ods.daily
    period: 1 day
    default_start: 2022-01-01
    steps:
      - {step: make, python: daily.py:rows, target: {type: parquet}}
"""


@pytest.mark.usefixtures("long", "spark_processes")
def test_a_small_run_starts_java_with_its_first_compiler_alone(world, tmp_path):
    for name in ("numbers", "sums"):
        (world.root / f"tables/{name}.yaml").unlink()
    world.write("tables/daily.yaml", DAILY)
    world.write("tables/daily.py", OPTIONS)
    folder, programs = tmp_path / "home", Path(sys.executable).parent
    folder.mkdir()
    variables = {"LOGDRIVEN_PROJECT": str(world.root), "DAGSTER_HOME": str(folder)}

    def start(*words):
        subprocess.run(
            [programs / words[0], *words[1:]],
            env=os.environ | variables | {"PYTHONPATH": os.pathsep.join(sys.path)},
            capture_output=True,
            timeout=PATIENCE,
            check=True,
        )

    start("logdriven", "run", "--now", "2022-01-02")
    start("logdriven", "run", "--now", "2022-01-03")
    job = ("job", "execute", "-m", "logdriven_dagster.definitions", "-j", "catch_up")
    config = world.root / "run.yaml"
    config.write_text("ops: {catch_up: {config: {now: '2022-01-04'}}}")
    start("dagster", *job, "-c", str(config))
    found = (world.root / "tables/options.txt").read_text().split()
    assert found == ["False", "True", "True"]
