"""Runs in processes of their own, which a test may kill."""

import subprocess
import sys
from pathlib import Path

from tests.faults.driver import ROOT, end_group
from tests.patience import PATIENCE

SPARK = {
    "master": "local[1]",
    "config": {
        "spark.driver.memory": "1g",
        "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    },
}


def run(folder: Path, *hurt: str, refresh: tuple[str, ...] = ()) -> int:
    """One catch-up, or refresh, in a process of its own, hurt or not; its exit code."""
    fault = hurt or ("", "", "1")
    command = [sys.executable, "-m", "tests.faults.victim", str(folder), *fault, "", *refresh]
    process = subprocess.Popen(
        command,
        cwd=ROOT,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        return process.wait(timeout=PATIENCE)
    finally:
        end_group(process.pid)
