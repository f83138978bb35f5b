"""A command that an installed package registers: the one of docs/commands.md."""

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.extending import packages
from tests.extending.packages import install, register

Run = Callable[..., "subprocess.CompletedProcess[str]"]
pytestmark = pytest.mark.usefixtures("slow")


@pytest.fixture
def logdriven(tmp_path: Path) -> Run:
    """The command line, in a project and an environment with the package."""
    install("commands.md", tmp_path / "site")
    (tmp_path / "shop" / "tables").mkdir(parents=True)
    (tmp_path / "shop/logdriven.yaml").write_text("project: shop\n")
    (tmp_path / "shop/tables/t.yaml").write_text(
        "table: ods.t\nperiod: 1 day\ndefault_start: 2022-01-01\nowners: [team:sales]\n"
        "steps: [{step: s, sql: SELECT 1 AS n, target: {type: parquet}}]\n"
    )

    def run(*words: str) -> "subprocess.CompletedProcess[str]":
        return packages.logdriven(tmp_path / "shop", tmp_path / "site", *words)

    return run


def test_it_runs_with_the_options_and_errors_of_ours(logdriven: Run):
    assert logdriven("owners").stdout == "ods.t: team:sales\n"
    assert logdriven("--project", ".", "owners").stdout == "ods.t: team:sales\n"
    ended = logdriven("owners", "--project", "nowhere")
    assert (ended.returncode, ended.stdout) == (2, "")
    assert ended.stderr.startswith("Error: ")
    helped = logdriven("--help").stdout
    assert "List the owners of each table." in helped.partition("Installed packages")[2]


def test_one_that_cannot_be_loaded_fails_alone_and_none_replaces_ours(
    logdriven: Run, tmp_path: Path
):
    entries = ("broken = toys.nowhere:command", "plan = toys.owners:owners")
    register(tmp_path / "site", "\n".join(["[logdriven.commands]", *entries]))
    problem = "toys.nowhere:command cannot be used: ModuleNotFoundError: No module named"
    ended = logdriven("broken", "--any", "option")
    assert ended.returncode == 2
    assert problem in ended.stderr
    assert problem in logdriven("--help").stdout
    assert "ready" in logdriven("plan", "--now", "2022-01-02").stdout
