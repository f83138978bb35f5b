"""Markers follow from fixtures, and a test that starts what it is not marked for fails."""

import re
from pathlib import Path

import pytest

from tests.setup.inner_runs import run

pytestmark = pytest.mark.usefixtures("slow")
FAST = "not spark and not database and not browser and not slow and not long"


STARTING = """
import sys
CHILD = "import subprocess as s; s.run(['java', 'org.apache.spark.deploy.SparkSubmit'])"
def test_starts(): start()
def test_starts_by_a_child(): subprocess.run([sys.executable, "-c", CHILD])
def test_asks_and_starts(spark_processes): start()
def test_behind_the_markers(request): request.getfixturevalue("server_urls")
"""


@pytest.fixture(scope="module")
def reported(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """What pytest reports of each test of one file that is not passed."""
    printed = run(tmp_path_factory.mktemp("inner"), STARTING)
    _, *parts = re.split(
        r"^_+ (?:ERROR at teardown of )?(test_\w+) _+$", printed, flags=re.MULTILINE
    )
    found: dict[str, str] = {}
    for name, text in zip(parts[::2], parts[1::2], strict=True):
        found[name] = found.get(name, "") + text.partition("\n===")[0]
    return found


def test_a_test_that_starts_spark_without_asking_for_it_fails(reported: dict[str, str]):
    assert "this test starts what only tests marked `spark` may" in reported["test_starts"]
    assert "ask for sail or spark or spark_processes" in reported["test_starts"]


def test_so_does_one_whose_process_starts_it(reported: dict[str, str]):
    assert "only tests marked `spark` may" in reported["test_starts_by_a_child"]


def test_one_that_asks_for_it_may(reported: dict[str, str]):
    assert "test_asks_and_starts" not in reported
    assert len(reported) == 3


def test_a_server_that_is_started_behind_the_markers_fails(reported: dict[str, str]):
    expected = "this test starts what only tests marked `database` may"
    assert expected in reported["test_behind_the_markers"]


def test_what_needs_more_is_no_fast_test(tmp_path: Path):
    tests = """
def test_spark(spark_processes): pass
def test_servers(server_urls): pass
def test_postgres(postgres_url): pass
@pytest.mark.usefixtures("slow")
def test_slow(): pass
@pytest.mark.usefixtures("long")
def test_long(): pass
@pytest.fixture
def browser(): pass
def test_browser(browser): pass
def test_databases(database_url): pass
"""
    printed = run(tmp_path, tests, "-m", FAST, "--collect-only")
    fast = [line.partition("::")[2] for line in printed.splitlines() if "::" in line]
    assert fast == ["test_databases[sqlite]"], "a test that needs more is fast"
    assert "1/9 tests collected (8 deselected)" in printed


SAMPLED = """
@pytest.mark.sampled
@pytest.mark.parametrize("n", range(5))
def test_numbers(n): pass
def test_that(): pass
@pytest.mark.sampled
def test_databases(database_url): pass
@pytest.mark.sampled("database_url")
@pytest.mark.parametrize("n", range(3))
def test_both(database_url, n): pass
"""


def test_of_a_sampled_family_one_stays_and_a_fast_one_of_it(tmp_path: Path):
    def collected(lane: str) -> list[str]:
        printed = run(tmp_path, SAMPLED, "-m", lane, "--collect-only")
        return [line.partition("::")[2] for line in printed.splitlines() if "::" in line]

    some, others = collected("not long"), collected("long")
    assert len(some) + len(others) == 5 + 1 + 3 + 9
    assert sum(name.startswith("test_numbers[") for name in some) == 1
    assert "test_that" in some
    assert sum(name.startswith("test_databases[") for name in some) == 2
    assert "test_databases[sqlite]" in some
    of_both = [name for name in some if name.startswith("test_both[")]
    assert {f"test_both[sqlite-{n}]" for n in range(3)} < set(of_both)
    assert len(of_both) == 6, "each number has a file and one of two servers"
