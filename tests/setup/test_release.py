"""What is released: metadata, the workflow that builds and publishes, and the wheel itself.

`make test-wheel` installs the built wheel into a clean environment, and names it here.
"""

import itertools
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from _pytest.mark.expression import Expression

from logdriven_dagster import __version__

ROOT = Path(__file__).resolve().parents[2]
WHEEL = os.environ.get("LOGDRIVEN_TEST_WHEEL")
CI = yaml.safe_load((ROOT / ".github/workflows/ci.yml").read_text())
INSTALL = yaml.safe_load((ROOT / ".github/actions/install/action.yml").read_text())
STEPS = [step for job in CI["jobs"].values() for step in job["steps"]] + INSTALL["runs"]["steps"]
LANES = ("check", "test-lane", "test-long", "test-newest", "test-oldest")

on_a_wheel = pytest.mark.skipif(WHEEL is None, reason="make test-wheel installs it")


def classifiers(file: str) -> list[str]:
    text = (ROOT / file).read_text()
    return re.findall(r'"(.+)"', text.partition("classifiers = [")[2].partition("\n]")[0])


def test_both_packages_have_the_same_metadata():
    told = classifiers("pyproject.toml")
    assert told == classifiers("core/pyproject.toml")
    assert "Typing :: Typed" in told
    assert (ROOT / "logdriven_dagster/py.typed").is_file()


def test_the_pythons_that_are_named_are_those_that_are_tested():
    named = [line for line in classifiers("pyproject.toml") if ":: 3." in line]
    tested = CI["jobs"]["fast"]["strategy"]["matrix"]["python"]
    assert named == [f"Programming Language :: Python :: {version}" for version in tested]


def test_the_workflow_calls_targets_that_are_there():
    called = [step["run"] for step in STEPS if step.get("run", "").startswith("make ")]
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    named = {word for line in called for word in line.split()[1:] if "=" not in word}
    assert {*LANES, "docs", "test-wheel", "test-core", "dist"} <= named
    assert named <= {*targets, ".venv/.installed-dev"}


NEEDS = ("spark", "database", "browser", "slow", "long")


@pytest.mark.parametrize("needs", list(itertools.product([False, True], repeat=len(NEEDS))))
def test_the_lanes_run_every_test_once(needs: tuple[bool, ...]):
    of_a_test = dict(zip(NEEDS, needs, strict=True))
    default = re.search(r"^LANE \?= (.+)$", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert default is not None
    classic = CI["jobs"]["spark"]["strategy"]["matrix"]["include"][0]["lane"]
    lanes = [CI["jobs"][name]["env"]["LANE"] for name in ("databases", "ui")]
    lanes += [default[1], classic, "long"]
    assert sum(Expression.compile(lane).evaluate(of_a_test.__getitem__) for lane in lanes) == 1


def test_only_what_publishes_may_identify_itself_and_only_after_all_else_for_a_tag():
    publish = CI["jobs"]["publish"]
    assert CI["permissions"] == {"contents": "read"}
    assert [name for name, job in CI["jobs"].items() if "permissions" in job] == ["publish"]
    assert publish["permissions"] == {"id-token": "write"}
    assert {*publish["needs"], "publish"} == {*CI["jobs"]}
    assert publish["if"] == "github.ref_type == 'tag'"
    assert "v*" in CI["on"]["push"]["tags"]


def test_the_workflow_stores_no_token_and_names_no_host():
    for file in (".github/workflows/ci.yml", ".github/actions/install/action.yml"):
        text = (ROOT / file).read_text()
        assert "secrets." not in text
        assert "://" not in text


def test_hooks_are_programs_of_the_environment_and_fetch_no_repository():
    config = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text())
    assert {repo["repo"] for repo in config["repos"]} == {"local"}
    hooks = [hook for repo in config["repos"] for hook in repo["hooks"]]
    assert {hook["language"] for hook in hooks} == {"system"}
    programs = {Path(hook["entry"].split()[0]) for hook in hooks}
    assert {program.parent for program in programs} == {Path(".venv/bin")}
    assert not [p.name for p in programs if not (Path(sys.executable).parent / p.name).exists()]


@pytest.mark.parametrize("step", [s for s in STEPS if "uses" in s], ids=lambda s: s["uses"])
def test_every_action_has_a_version(step: dict[str, Any]):
    assert re.fullmatch(
        r"[\w-]+/[\w-]+@(v\d+|release/v\d+)|\./\.github/actions/install", step["uses"]
    )


@pytest.mark.parametrize("name", list(CI["jobs"]))
def test_every_job_ends(name: str):
    assert CI["jobs"][name]["timeout-minutes"] <= 120


def typed(folder: Path, script: str) -> subprocess.CompletedProcess[str]:
    """What a shell makes of a script with the environment of the wheel, and nothing of ours."""
    keep = {"HOME", "LANG", "TMPDIR", "JAVA_HOME"}
    environment = {name: value for name, value in os.environ.items() if name in keep}
    path = f"{(ROOT / str(WHEEL)).resolve()}/bin:/usr/bin:/bin"
    return subprocess.run(
        ["bash", "-euo", "pipefail", "-c", script],
        cwd=folder,
        env=environment | {"PATH": path, "DAGSTER_DISABLE_TELEMETRY": "yes"},
        capture_output=True,
        text=True,
        check=False,
    )


@on_a_wheel
def test_the_wheel_makes_a_project_and_runs_it(tmp_path: Path):
    ran = typed(
        tmp_path,
        "logdriven init shop && cd shop && logdriven validate && logdriven run && logdriven status"
        " && dagster definitions validate -m logdriven_dagster.definitions",
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "SUCCESS  dws.daily_sales" in ran.stdout


@on_a_wheel
def test_the_wheel_is_typed_and_holds_no_tests(tmp_path: Path):
    look = (
        "import logdriven_dagster as p, pathlib; f = pathlib.Path(p.__file__).parent; "
        "print(p.__version__, (f / 'py.typed').is_file(), (f.parent / 'tests').exists())"
    )
    assert typed(tmp_path, f'python -c "{look}"').stdout.split() == [__version__, "True", "False"]
