"""A runner killed with -9 at any point of a window's life leaves the rows of an undisturbed run."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.builders import at
from tests.faults.dying import POINTS

ROOT = Path(__file__).resolve().parents[2]
NUMBERS = [(at(f"2022-01-0{d}").date(), d * 10 + n) for d in range(1, 5) for n in (1, 2)]


@pytest.mark.parametrize("point", POINTS)
def test_a_killed_run_is_finished_by_the_next_one(world, point):
    command = [sys.executable, "-m", "tests.faults.dying", str(world.root), point]
    died = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, timeout=120, check=False
    )
    assert died.returncode == -signal.SIGKILL, died.stderr

    world.catch_up()

    assert world.rows("ods.numbers") == NUMBERS
    assert world.rows("dws.sums") == [(23,), (43,), (63,), (83,)]
    done = [row for row in world.log() if row["latest"] == 1]
    assert [row["status"] for row in done] == ["SUCCESS"] * 8
    assert all(row["status"] in ("SUCCESS", "FAILURE") for row in world.log())
    died_once = [row for row in world.log() if row["status"] == "FAILURE"]
    assert len(died_once) == (0 if point == "finished" else 1)
