"""A Spark Connect server of others that dies in the middle of a window."""

import subprocess
import sys
import time

import pytest

from tests.engine.foreign import foreign_server, free_port
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
    import pathlib, socket, time
    import psutil

    def is_open():
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", PORT)) == 0

    def run(view):
        marks = pathlib.Path("deaths.txt")
        times = len(marks.read_text()) if marks.exists() else 0
        if times in (0, 2):  # the first window's first look, and the second one's
            for process in psutil.process_iter(["name", "cmdline"]):
                if "grpc.binding.port=PORT" in " ".join(process.info["cmdline"] or ()):
                    process.kill()
            while is_open():
                time.sleep(0.1)
        marks.write_text("x" * (times + 1))
        while times == 0 and not is_open():
            time.sleep(0.2)
        return view
"""


@pytest.mark.usefixtures("long")
def test_a_restarted_one_runs_the_window_and_without_one_the_run_ends(tmp_path):
    port, marks = free_port(), tmp_path / "deaths.txt"
    world = World(tmp_path, None)
    world.write("logdriven.yaml", f"project: world\nspark: {{remote: 'sc://127.0.0.1:{port}'}}")
    world.write("tables/deadly.yaml", TABLE)
    world.write("tables/kill.py", KILL.replace("PORT", str(port)))
    command = ["-m", "logdriven_dagster.cli", "run", "ods.deadly", "--now", "2022-01-03"]
    with foreign_server(tmp_path, port=port):
        run = subprocess.Popen(
            [sys.executable, *command],
            cwd=tmp_path,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        while not marks.exists() and run.poll() is None:
            time.sleep(0.1)
    with foreign_server(tmp_path, port=port):
        said, _ = run.communicate(timeout=PATIENCE)
    assert run.returncode == 1, said
    assert "Spark died: its server does not answer, or was restarted" in said
    assert f"the Spark Connect server at 127.0.0.1:{port} does not answer" in said
    assert world.statuses("ods.deadly") == [("01", "SUCCESS"), ("02", "DISCARDED")]
    assert world.log("ods.deadly")[0]["error_count"] == 1
