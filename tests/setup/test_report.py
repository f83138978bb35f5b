"""The report of a run names folders, outcomes and the slowest tests."""

from pathlib import Path

import pytest

from tests.setup.inner_runs import run

pytestmark = pytest.mark.usefixtures("slow")


def test_each_test_counts_once_by_its_worst_phase(tmp_path: Path):
    tests = (
        "import time\ndef test_good(): time.sleep(1.1)\ndef test_bad(): assert 0\n"
        "@pytest.fixture\ndef broken(): yield; assert 0\ndef test_ugly(broken): pass\n"
        "def test_none(): pytest.skip('no')\n"
    )
    run(tmp_path, tests, "-p", "tests.report", "--report", str(tmp_path / "new" / "report.md"))
    report = (tmp_path / "new" / "report.md").read_text()
    assert "| `test_it.py` | 4 | 1 | 1 | 2 | 1 |" in report
    assert report.index("| `test_it.py::test_good` | 1 |") < report.index("::test_bad` | 0 |")
