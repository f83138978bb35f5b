"""Every command of the README and the tutorial runs as it stands, in a fresh folder."""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from logdriven_dagster.config import load_project
from logdriven_dagster.examples import demo

ROOT = Path(__file__).resolve().parents[2]
_DG = "tests/orchestration/components/test_dg.py"
ELSEWHERE = {
    "make demo": "tests/setup/test_readme.py",
    "make ui": "tests/ui/test_command.py",
    "logdriven ui": "tests/ui/test_command.py",
    "dg dev": _DG,
    "pip install --editable .": "PYTHONPATH of this module has the project",
    "make install": "every test runs in what it installs",
    "python3 -m venv .venv && source .venv/bin/activate": "every test runs in one",
    "pip install '/path/to/this/clone[java]'": "tests/setup/test_release.py",
}
"""Commands that take long or do not end, and what runs them."""


_BLOCK = re.compile(r"^```(\w+)(?: title=\"(.+?)\")?\n(.*?)^```", re.DOTALL | re.MULTILINE)


def blocks() -> Iterator[list[str]]:
    """The commands of each console block of the README, without comments and output."""
    for kind, _, text in _BLOCK.findall((ROOT / "README.md").read_text()):
        if kind == "console":
            yield [re.sub(r"\s+#.*", "", line) for line in shown(text)]


def shown(text: str) -> list[str]:
    return [line[2:] for line in text.splitlines() if line[:2] == "$ "]


def script(commands: list[str]) -> str:
    lines = [line for line in commands if line not in ELSEWHERE]
    parts = [part.strip() for line in lines for part in line.split("&&")]
    return "\n".join(part for part in parts if part not in ELSEWHERE)


def tutorial(page: str) -> Iterator[str]:
    """What one does by a tutorial: its commands, and its files by their titles."""
    for kind, title, text in _BLOCK.findall((ROOT / page).read_text()):
        if title:
            yield f"cat > {title} <<'END'\n{text}END"
        elif kind == "console":
            for line in shown(text):
                command, _, comment = (part.strip() for part in line.partition(" #"))
                ran = script([command])
                yield f"if {ran}; then exit 9; fi" if comment in _FAILURES else ran


_FAILURES = {"fails", "exits with 1"}
"""Comments of commands that do not end with 0."""


@dataclass(frozen=True)
class Demonstrated:
    """What `make demo` printed the first and the second time, and what arrived."""

    folder: Path
    first: str
    second: str
    finished: dict[str, tuple[int, int, int]]


SHORT = {
    "default_start: 2013-01-01": "default_start: 2013-01-14",
    "default_start: 2013-01-07": "default_start: 2013-01-14",
    "end: 2013-02-01": "end: 2013-01-21",
}
"""The changes to the example's files that leave one week: its third day is the bad one."""


@pytest.fixture(scope="module")
def week(tmp_path_factory: pytest.TempPathFactory, spark_processes: None) -> Demonstrated:
    """The demo on one week of its data, by the function that `make demo` calls."""
    folder = tmp_path_factory.mktemp("clone") / ".demo"
    example = tmp_path_factory.mktemp("short") / "example"
    shutil.copytree(demo.EXAMPLE, example)
    for file in example.rglob("*.yaml"):
        text = file.read_text()
        for old, new in SHORT.items():
            text = text.replace(old, new)
        file.write_text(text)
    program = f"""if True:
        import sys
        from pathlib import Path
        from {demo.__package__} import demo
        sys.exit(demo.demonstrate(Path({str(folder)!r}), Path({str(example)!r})))
    """
    return demonstrate(folder, "-c", program)


@pytest.fixture(scope="module")
def january(
    tmp_path_factory: pytest.TempPathFactory, spark_processes: None, long: None
) -> Demonstrated:
    folder = tmp_path_factory.mktemp("clone") / ".demo"
    return demonstrate(folder, "-m", demo.__name__, "--folder", str(folder))


def demonstrate(folder: Path, *arguments: str) -> Demonstrated:
    """Run the demo twice, each time in a process of its own."""
    first, second = (run_demo(*arguments) for _ in range(2))
    return Demonstrated(folder, first, second, demo.count_finished(load_project(folder)))


def run_demo(*arguments: str) -> str:
    command = [sys.executable, *arguments]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return ran.stdout


@pytest.fixture
def clone(request: pytest.FixtureRequest, spark_processes: None) -> Path:
    """A folder with the demo as `make demo` leaves it, and with the environment of this test.

    A test of `make test` has one week of it.
    """
    is_long = request.node.get_closest_marker("long")
    run: Demonstrated = request.getfixturevalue("january" if is_long else "week")
    folder = run.folder.parent
    if not (folder / ".venv").exists():
        (folder / ".venv").symlink_to(Path(sys.executable).parents[1])
    return folder


def test_every_flight_of_a_week_arrives_and_a_second_run_finds_nothing_to_do(
    week: Demonstrated,
) -> None:
    assert "FAILURE  ods.flights [2013-01-16, 2013-01-17)" in week.first
    counts = week.finished
    assert counts["ods.flights"] == (7, 6_034, 6_034)
    assert {name: windows for name, (windows, _, _) in counts.items()} == {
        "ods.airlines": 1,
        "ods.airports": 1,
        "ods.planes": 1,
        "ods.flights": 7,
        "ods.weather": 14,
        "dwd.flights": 7,
        "dws.daily_delay": 7,
        "dws.weekly_delay": 1,
    }
    assert counts["dwd.flights"][2] == counts["ods.flights"][2]
    assert "Nothing to do" in week.second
    assert "do not belong to any window" not in week.first
    assert week.first.endswith("ods.flights: 6,034 rows, as many as its file has: 6,034.\n")


def test_every_flight_of_january_arrives_and_a_second_run_finds_nothing_to_do(
    january: Demonstrated,
) -> None:
    assert "FAILURE  ods.flights [2013-01-16, 2013-01-17)" in january.first
    counts = january.finished
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
    assert "Nothing to do" in january.second
    assert "do not belong to any window" not in january.first


def by_hand(where: Path, script: str) -> subprocess.CompletedProcess[str]:
    """What a shell makes of commands that somebody types, with little in its environment."""
    keep = {"PATH", "HOME", "LANG", "TMPDIR", "JAVA_HOME", "JAVA_TOOL_OPTIONS", "XDG_CACHE_HOME"}
    environment = {name: value for name, value in os.environ.items() if name in keep}
    environment["PYTHONPATH"] = "src"  # of a project of dg in the shell's folder
    environment["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{environment['PATH']}"
    return subprocess.run(
        ["bash", "-euo", "pipefail", "-c", script],
        cwd=where,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.sampled
@pytest.mark.parametrize("commands", [pytest.param(b, id=b[0]) for b in blocks()])
def test_the_commands_of_a_block_run_as_they_stand(clone: Path, commands: list[str]) -> None:
    where = clone / ".demo" if commands[0] == "logdriven run" else clone
    ran = by_hand(where, script(commands))
    assert ran.returncode == 0, ran.stdout + ran.stderr


@pytest.mark.usefixtures("long")
@pytest.mark.usefixtures("spark_processes")
def test_the_tutorial_leads_from_an_empty_folder_to_two_tables(tmp_path: Path) -> None:
    ran = by_hand(tmp_path, "\n".join(tutorial("docs/tutorial.md")))
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "line 5: column amount holds 'soon'" in ran.stdout
    counts = demo.count_finished(load_project(tmp_path / "shop"))
    assert {name: (windows, written) for name, (windows, _, written) in counts.items()} == {
        "ods.orders": (3, 5),
        "dws.daily_sales": (3, 5),
    }


@pytest.mark.usefixtures("long")
@pytest.mark.usefixtures("spark_processes")
def test_the_twelve_tasks_of_a_first_day_run_as_they_stand(tmp_path: Path) -> None:
    ran = by_hand(tmp_path, "\n".join(tutorial("docs/first-day.md")))
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "column amount holds 'soon'" in ran.stdout
    assert "1 rejected by positive of amount" in ran.stdout
    assert "unknown column client" in ran.stderr
    counts = demo.count_finished(load_project(tmp_path / "shop"))
    assert {name: (windows, written) for name, (windows, _, written) in counts.items()} == {
        "ods.orders": (2, 4),
        "ods.clicks": (3, 3),
        "dwd.paid": (3, 3),
        "dws.page_views": (3, 2),
        "dws.customers": (3, 3),
        "dws.weeks": (1, 2),
    }


@pytest.mark.usefixtures("long")
def test_the_walk_through_of_a_changed_threshold_runs_as_it_stands(january: Demonstrated) -> None:
    commands = list(tutorial("docs/comparing.md"))
    behind_the_demo = commands[commands.index("cd .demo") + 1 :]
    ran = by_hand(january.folder, "\n".join(behind_the_demo))
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "31 of 31 windows by version 1" in ran.stdout
    assert "93 rows compared by (day, origin): delayed differs in 93, nothing else" in ran.stdout
    compared = "9 rows compared by (week, origin): delayed_share differs in 9, nothing else"
    assert compared in ran.stdout


@pytest.mark.parametrize("place", sorted({p for p in ELSEWHERE.values() if "/" in p}))
def test_what_runs_elsewhere_is_there(place: str) -> None:
    assert (ROOT / place).exists()


def test_the_installation_prints_its_progress(tmp_path: Path) -> None:
    command = ["make", "--dry-run", f"VENV={tmp_path}", "install"]
    ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    assert "Installing PySpark, Dagster and what else it needs" in ran.stdout


def test_nothing_is_written_into_the_package(clone: Path) -> None:
    assert not list(Path(demo.__file__).parent.rglob(".logdriven"))


@pytest.mark.usefixtures("long")
def test_without_a_project_dagster_explains_how_to_name_one(tmp_path: Path) -> None:
    program = shutil.which("dagster", path=str(Path(sys.executable).parent))
    assert program is not None
    where = {name: value for name, value in os.environ.items() if name != "LOGDRIVEN_PROJECT"}
    ran = subprocess.run(
        [program, "asset", "materialize", "-m", "logdriven_dagster.definitions", "--select", "x"],
        cwd=tmp_path,
        env=where,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode != 0
    assert f"{tmp_path}/logdriven.yaml: no such file" in ran.stderr
    assert "set --project or LOGDRIVEN_PROJECT" in ran.stderr
    assert list(tmp_path.iterdir()) == []
