"""The session, hand-written frames, and what importing costs."""

import os
import subprocess
import sys
import threading

import pytest

from logdriven_dagster.engine.spark import settings as spark_settings
from logdriven_dagster.engine.spark.classic.java_noise import java_noise_hidden
from logdriven_dagster.model.runs import ExpectedWork
from tests.builders import day
from tests.engine.laboratory import Lab, held
from tests.patience import PATIENCE


@pytest.mark.usefixtures("slow")
def test_importing_the_engine_imports_neither_spark_nor_iceberg():
    code = (
        "import sys, logdriven_dagster.engine\n"
        "from logdriven_dagster.engine import Engine, spark_session\n"
        "print([m for m in ('pyspark', 'pyiceberg', 'pyarrow', 'pandas') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_output_of_java_never_splits_a_line(capfd):
    lines = "WARNING: Using incubator modules: jdk.incubator.vector\\nout of memory\\n"
    others = set(threading.enumerate())  # such as that of the JVM of this process
    with java_noise_hidden():
        child = subprocess.Popen(["/bin/sh", "-c", f"printf '{lines}' >&2"])
        os.write(2, b"ours\n")
    child.wait()
    for thread in set(threading.enumerate()) - others:
        thread.join(PATIENCE)  # it ends when nobody can write to it any more
        assert not thread.is_alive()
    os.write(2, b"later\n")
    shown = capfd.readouterr().err.splitlines()
    assert sorted(shown) == ["later", "ours", "out of memory"]


def test_a_hand_written_frame_is_staged_and_published_like_a_result(lab: Lab):
    lab.table("ods.t", {"sql": "SELECT 1 AS a", "target": {"type": "iceberg"}})
    frame = lab.spark.range(3)
    with lab.session("ods.t", day(1)) as session:
        (staged,) = session.stage_frame(lab.project.table("ods.t").steps[0], frame)
        session.publish("step_1", held)
    assert (staged.source_type, staged.counts.source, staged.counts.target) == ("dataframe", 3, 3)
    assert lab.rows("ods.t") == [(0,), (1,), (2,)]


def test_the_projects_settings_win_except_over_its_time_zone(lab: Lab):
    lab.settings["timezone"] = "Asia/Tokyo"
    config = {"spark.sql.shuffle.partitions": 7, "spark.sql.session.timeZone": "UTC"}
    lab.settings["spark"] = {"config": config}
    settings = spark_settings.session_settings(lab.project)
    assert settings["spark.sql.shuffle.partitions"] == "7"
    assert settings["spark.sql.session.timeZone"] == "Asia/Tokyo"


def test_settings_of_a_window_do_not_change_the_users_session(lab: Lab):
    lab.settings["timezone"] = "Asia/Tokyo"
    before = lab.spark.conf.get("spark.sql.session.timeZone")
    lab.table("ods.t", {"sql": "SELECT current_timezone() AS zone", "target": {"type": "parquet"}})
    lab.run("ods.t", day(1))
    assert lab.rows("ods.t") == [("Asia/Tokyo",)]
    assert lab.spark.conf.get("spark.sql.session.timeZone") == before


def test_options_of_the_project_come_after_those_of_every_jvm(lab: Lab):
    own = "-XX:+UseParallelGC -XX:G1HeapRegionSize=8m"
    names = [f"spark.{which}.extraJavaOptions" for which in ("driver", "executor")]
    lab.settings["spark"] = {"config": {names[0]: own}}
    settings = spark_settings.launch_settings(lab.project)
    assert settings[names[0]].endswith(f" {own}")
    assert all("-XX:G1HeapRegionSize=32m" in settings[name].split() for name in names)
    assert all("-XX:Tier4CompileThreshold=150000" in settings[name].split() for name in names)


@pytest.mark.usefixtures("long")
@pytest.mark.parametrize("own", [True, False])
def test_the_jvm_is_started_without_a_fork_and_out_of_reach_of_ctrl_c(spark_processes, own):
    """gRPC, which works in every process on Sail, kills a few of a hundred forked children."""
    code = (
        "import os\n"
        "os.register_at_fork(before=lambda: print('forked'))\n"
        "from logdriven_dagster.engine.spark.classic import internals, launching\n"
        f"launching.start_java({{'spark.driver.bindAddress': '127.0.0.1'}}, own_session={own})\n"
        "print(os.getsid(internals.gateway().proc.pid) != os.getsid(0))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == [str(own)]


def test_a_jvm_for_little_work_has_the_first_compiler_alone(lab: Lab):
    first, name = "-XX:TieredStopAtLevel=1", "spark.driver.extraJavaOptions"

    def options(expected: ExpectedWork | None) -> list[str]:
        return spark_settings.launch_settings(lab.project, expected)[name].split()

    assert first in options(ExpectedWork(rows=400_000, seconds=8))
    assert first not in options(None)
    assert first not in options(ExpectedWork(rows=600_000, seconds=8))
    assert first not in options(ExpectedWork(rows=10, seconds=30)), "its joins may read many rows"
    lab.settings["spark"] = {"config": {name: "-XX:TieredStopAtLevel=4"}}
    assert options(ExpectedWork(rows=10, seconds=1))[-1] == "-XX:TieredStopAtLevel=4"
    lab.settings["spark"] = {"master": "spark://127.0.0.1:7077"}
    assert first not in options(ExpectedWork(rows=10, seconds=1))
