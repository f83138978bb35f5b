"""Settings with secrets do not stay in the temporary folder when a process is killed."""

import subprocess
import sys
import tempfile
import time
from datetime import timedelta
from pathlib import Path

import pytest

from logdriven_dagster.engine.spark.classic.settings_files import (
    find_leftover_settings,
    settings_file,
)
from logdriven_dagster.engine.targets.garbage import find_garbage
from tests.engine.laboratory import Lab
from tests.needs import rarely
from tests.patience import PATIENCE

STARTING = """
from logdriven_dagster.engine.spark.classic.settings_files import settings_file
with settings_file({"secret": "not-for-others"}) as file:
    print(file, flush=True)
    input()
"""


@pytest.fixture(autouse=True)
def temporary(tmp_path, monkeypatch):
    """The folder of temporary files, of this process and those that it starts."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setenv("TMPDIR", str(folder))
    monkeypatch.setattr(tempfile, "tempdir", None)
    yield folder
    monkeypatch.undo()
    tempfile.tempdir = None


@pytest.fixture
def starting():
    """Start a process that has written its settings; its file with it."""
    processes = []

    def start() -> "tuple[subprocess.Popen[str], Path]":
        process = subprocess.Popen(
            [sys.executable, "-c", STARTING],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        processes.append(process)
        assert process.stdout is not None
        return process, Path(process.stdout.readline().strip())

    yield start
    for process in processes:
        process.kill()
        process.communicate()


def test_what_a_killed_process_left_is_removed_by_the_next_start(starting, temporary):
    process, file = starting()
    _, other = starting()
    process.kill()
    process.wait()
    assert "not-for-others" in file.read_text()
    with settings_file({"a": "b"}) as own:
        assert sorted(temporary.glob("*/*")) == sorted([own, other])
    assert list(temporary.glob("*/*")) == [other]


def test_clean_finds_what_a_killed_process_left_at_any_age(starting, tmp_path):
    process, file = starting()
    lab = Lab(tmp_path / "project", None)
    lab.root.mkdir()

    def found():
        return list(find_garbage(lab.project, lambda *_: True, timedelta(days=1)))

    assert found() == []
    process.kill()
    process.wait()
    (left,) = found()
    assert (left.kind, left.location) == ("settings", str(file.parent))
    left.remove()
    assert found() == []
    assert not file.parent.exists()


def test_a_folder_without_settings_is_left_alone(temporary):
    (temporary / "logdriven-spark-just-made").mkdir()
    assert find_leftover_settings() == []


SECRET = "key-of-the-lake-9731"
PROJECT = """
project: shop
run_log: sqlite:///log.db
spark: {config: {spark.hadoop.fs.s3a.secret.key: "${env:LAKE_KEY}"}}
"""
TABLE = """
table: ods.t
incremental_type: full
period: 1 day
default_start: 2022-01-01
steps:
  - {step: load, sql: SELECT 1 AS n, target: {type: csv, path: out, mode: overwrite}}
"""


@pytest.mark.parametrize("next_command", ["clean", *rarely("run")])
def test_no_secret_remains_of_a_runner_that_is_killed_while_spark_starts(
    spark_processes, temporary, tmp_path, monkeypatch, next_command
):
    project = tmp_path / "project"
    for name, text in (("logdriven.yaml", PROJECT), ("tables/t.yaml", TABLE)):
        (project / name).parent.mkdir(parents=True, exist_ok=True)
        (project / name).write_text(text)
    monkeypatch.setenv("LAKE_KEY", SECRET)

    def start(command):
        clock = ["--now", "2022-01-02"] if command == "run" else []
        words = [sys.executable, "-m", "logdriven_dagster.cli", command, "--project", project]
        return subprocess.Popen([*words, *clock], stdout=subprocess.PIPE, stderr=subprocess.STDOUT)

    def holders():
        files = [file for root in (temporary, project) for file in root.rglob("*")]
        return [file.name for file in files if file.is_file() and SECRET in read(file)]

    runner, until = start("run"), time.monotonic() + PATIENCE
    while not holders():
        assert runner.poll() is None, runner.stdout and runner.stdout.read()
        assert time.monotonic() < until, "the runner does not start Spark"
        time.sleep(0.01)
    runner.kill()
    runner.communicate()
    assert holders() == ["spark.properties"]
    following = start(next_command)
    output, _ = following.communicate(timeout=PATIENCE)
    assert following.returncode == 0, output
    assert holders() == []


def read(file: Path) -> str:
    """The text of a file, which a process may remove at any time."""
    try:
        return file.read_text(errors="replace")
    except FileNotFoundError:
        return ""
