"""Runs of pytest within a test, over a file of tests that the test writes."""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
STARTS_SPARK = """
import subprocess

def start():
    # What PySpark's launcher calls, without a Spark to be found.
    subprocess.run(["java", "-cp", "/nowhere", "org.apache.spark.launcher.Main"], check=False)
"""


def run(folder: Path, tests: str, *options: str) -> str:
    """Return what pytest prints of a file of tests that knows our markers and servers."""
    (folder / "test_it.py").write_text("import pytest\n" + STARTS_SPARK + tests)
    command = [sys.executable, "-m", "pytest", "-p", "tests.needs", "-p", "tests.servers", "-q"]
    path = os.pathsep.join([str(ROOT), *sys.path])
    done = subprocess.run(
        [*command, "-p", "no:cacheprovider", "--rootdir", str(folder), *options, str(folder)],
        cwd=folder,
        # This test has no Spark either: what one that is allowed to start it calls is noted there.
        env=os.environ | {"PYTHONPATH": path, "LOGDRIVEN_TEST_STARTED": str(folder / "noted")},
        capture_output=True,
        text=True,
        check=False,
    )
    return done.stdout + done.stderr
