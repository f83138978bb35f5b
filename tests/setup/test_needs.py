"""Markers follow from fixtures, and a test that starts what it is not marked for fails."""

from pathlib import Path

import pytest

from tests.setup.inner_runs import run

pytestmark = pytest.mark.usefixtures("slow")
FAST = "not spark and not database and not browser and not slow and not long"


def test_a_test_that_starts_spark_without_asking_for_it_fails(tmp_path: Path):
    printed = run(tmp_path, "def test_it(): start()\n")
    assert "this test starts what only tests marked `spark` may" in printed
    assert "ask for sail or spark or spark_processes" in printed


def test_so_does_one_whose_process_starts_it(tmp_path: Path):
    child = "import subprocess as s; s.run(['java', 'org.apache.spark.deploy.SparkSubmit'])"
    test = f'import sys\ndef test_it(): subprocess.run([sys.executable, "-c", "{child}"])\n'
    assert "only tests marked `spark` may" in run(tmp_path, test)


def test_one_that_asks_for_it_may(tmp_path: Path):
    assert "1 passed" in run(tmp_path, "def test_it(spark_processes): start()\n")


def test_a_server_that_is_started_behind_the_markers_fails(tmp_path: Path):
    test = "def test_it(request): request.getfixturevalue('server_urls')\n"
    printed = run(tmp_path, test)
    assert "this test starts what only tests marked `database` may" in printed


@pytest.mark.parametrize(
    "test",
    [
        "def test_it(spark_processes): pass",
        "def test_it(server_urls): pass",
        "def test_it(postgres_url): pass",
        '@pytest.mark.usefixtures("slow")\ndef test_it(): pass',
        '@pytest.mark.usefixtures("long")\ndef test_it(): pass',
        "@pytest.fixture\ndef browser(): pass\n\ndef test_it(browser): pass",
    ],
)
def test_what_needs_more_is_no_fast_test(tmp_path: Path, test: str):
    assert "1 deselected" in run(tmp_path, f"{test}\n", "-m", FAST)


def test_of_a_test_on_three_databases_the_one_on_a_file_is_fast(tmp_path: Path):
    test = "def test_it(database_url): pass\n"
    assert "1 passed, 2 deselected" in run(tmp_path, test, "-m", FAST)


def test_of_a_sampled_family_one_stays(tmp_path: Path):
    test = (
        '@pytest.mark.sampled\n@pytest.mark.parametrize("n", range(5))\n'
        "def test_it(n): pass\ndef test_that(): pass\n"
    )
    assert "2 passed, 4 deselected" in run(tmp_path, test, "-m", "not long")
    assert "4 passed, 2 deselected" in run(tmp_path, test, "-m", "long")


def test_so_does_a_fast_one_of_it(tmp_path: Path):
    test = "@pytest.mark.sampled\ndef test_it(database_url): pass\n"
    assert "1 passed, 2 deselected" in run(tmp_path, test, "-m", FAST)
    assert "2/3 tests collected" in run(tmp_path, test, "-m", "not long", "--collect-only")
