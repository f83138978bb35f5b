"""Settings with secrets do not stay in the temporary folder when a process is killed."""

import subprocess
import sys
import tempfile
from datetime import timedelta
from pathlib import Path

import pytest

from logdriven_dagster.engine.spark.classic.settings_files import (
    find_leftover_settings,
    settings_file,
)
from logdriven_dagster.engine.targets.garbage import find_garbage
from tests.engine.laboratory import Lab

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
