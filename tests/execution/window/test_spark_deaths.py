"""A JVM that dies in the middle of a window: said plainly, and another one does the window."""

import subprocess
import sys
import textwrap

import pytest

from tests.execution.conftest import World
from tests.patience import PATIENCE

pytestmark = pytest.mark.usefixtures("spark_processes")

TABLE = """
    table: ods.deadly
    period: 1 day
    default_start: 2022-01-01
    steps:
      - {step: view, sql: SELECT 1 AS one}
      - {step: kill, python: "kill.py:run", target: {type: parquet}}
"""
KILL = """
    import pathlib
    import psutil

    def run(view):
        marks = pathlib.Path("deaths.txt")
        with marks.open("a") as file:
            file.write("x")
        if len(marks.read_text()) <= TIMES:
            for child in psutil.Process().children(recursive=True):
                if child.name() == "java":
                    child.kill()
        return view
"""
TOLD = "Spark died: it was killed by SIGKILL, as the system does if it is out of memory"


@pytest.fixture
def run(tmp_path):
    """Run a day in a process of its own, whose JVM is killed so many times."""

    def of(times):
        world = World(tmp_path, None)
        world.write("tables/deadly.yaml", TABLE)
        world.write("tables/kill.py", KILL.replace("TIMES", str(times)))
        command = ["-m", "logdriven_dagster.cli", "run", "ods.deadly", "--max-windows", "1"]
        done = subprocess.run(
            [sys.executable, *command, "--now", "2022-01-02"],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            check=False,
        )
        return done, world.log("ods.deadly")

    return of


@pytest.mark.usefixtures("long")
def test_another_one_does_the_window_within_the_attempt_and_without_retries(run):
    done, [attempt] = run(times=1)
    assert done.returncode == 0, done.stderr
    assert TOLD in done.stderr
    assert (attempt["status"], attempt["error_count"]) == ("SUCCESS", 1)
    assert [step["status"] for step in attempt["steps"]] == ["SUCCESS", "SUCCESS"]


@pytest.mark.usefixtures("long")
def test_one_that_dies_of_the_window_again_fails_it_with_the_cause(run):
    done, [attempt] = run(times=9)
    assert done.returncode == 1
    assert TOLD in done.stdout
    assert attempt["status"] == "FAILURE"
    assert "Errno 111" not in done.stdout


LATE = """
    import threading
    from py4j.protocol import Py4JError
    from pyspark import SparkContext
    from pyspark.sql import SparkSession
    from logdriven_dagster.engine.failures import step_error

    SparkSession.builder.master("local[1]").getOrCreate()
    threading.Timer(0.5, SparkContext._gateway.proc.kill).start()
    try:
        try:
            raise Py4JError("org.apache.spark.sql.functions does not exist in the JVM")
        except Py4JError as error:
            raise RuntimeError("what a Python step makes of it") from error
    except RuntimeError as error:
        print(step_error(error))
"""


def test_an_answer_that_was_cut_off_is_a_death_although_it_reads_like_a_missing_class():
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(LATE)],
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=True,
    )
    assert done.stdout.splitlines() == [TOLD]
