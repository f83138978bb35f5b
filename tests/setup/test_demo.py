"""The demo on real data: a bad day, repaired and caught up; killed anywhere, it goes on."""

import subprocess
import sys

from logdriven_dagster.config import load_project
from logdriven_dagster.examples import demo


def test_one_value_is_made_unreadable_and_the_good_file_kept(tmp_path):
    demo.prepare(tmp_path)
    good = demo.spare(tmp_path).read_text().splitlines()
    bad = (tmp_path / "data" / "flights.csv").read_text().splitlines()
    changed = [(a, b) for a, b in zip(good, bad, strict=True) if a != b]
    ((before, after),) = changed
    assert before.startswith("2013,1,16,")
    assert after.split(",")[demo.DELAY] == demo.BAD_VALUE


def test_a_repaired_demo_stays_repaired(tmp_path):
    demo.prepare(tmp_path)
    demo.repair(tmp_path)
    demo.prepare(tmp_path)
    assert not demo.spare(tmp_path).exists()
    assert demo.BAD_VALUE not in (tmp_path / "data" / "flights.csv").read_text()


def test_a_demo_killed_between_the_two_files_can_repair(tmp_path):
    demo.prepare(tmp_path)
    (tmp_path / "data" / "flights.csv").unlink()
    demo.prepare(tmp_path)
    demo.repair(tmp_path)
    assert demo.BAD_VALUE not in (tmp_path / "data" / "flights.csv").read_text()


def run_demo(folder):
    command = [sys.executable, "-m", "logdriven_dagster.examples.demo", "--folder", str(folder)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_every_flight_of_january_arrives_and_a_second_run_finds_nothing_to_do(tmp_path):
    folder = tmp_path / "demo"
    first = run_demo(folder)
    assert first.returncode == 0, first.stdout + first.stderr
    assert "FAILURE  ods.flights [2013-01-16, 2013-01-17)" in first.stdout
    counts = demo.finished(load_project(folder))
    assert counts["ods.flights"] == (31, 27_004, 27_004)
    assert counts["dwd.flights"][2] == 27_004
    assert {name: windows for name, (windows, _, _) in counts.items()} == {
        "ods.airlines": 1,
        "ods.airports": 1,
        "ods.planes": 1,
        "ods.flights": 31,
        "ods.weather": 62,
        "dwd.flights": 31,
        "dws.daily_delay": 31,
        "dws.weekly_delay": 3,
    }
    assert "Nothing to do" in run_demo(folder).stdout
