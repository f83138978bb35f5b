"""A report of a run of tests, in Markdown: what passed where, and what took longest."""

import platform
from collections import Counter, defaultdict
from datetime import datetime, timezone
from heapq import nlargest
from importlib.metadata import version
from operator import itemgetter
from os import cpu_count
from pathlib import Path

import pytest

_SLOWEST = 25
_OUTCOMES = ("passed", "skipped", "failed")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--report", type=Path, help="write a report of the run to this file")


def _in_a_table(name: str) -> str:
    return name.removeprefix("tests/").replace("|", "\\|")


class Report:
    """What a run has reported so far."""

    def __init__(self, file: Path) -> None:
        self.file = file
        self.began = datetime.now(timezone.utc)
        self.seconds: dict[str, float] = defaultdict(float)
        self.outcomes: dict[str, str] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Add the phase of a test; the worst outcome of its phases is that of the test."""
        self.seconds[report.nodeid] += report.duration
        known = self.outcomes.get(report.nodeid, "passed")
        self.outcomes[report.nodeid] = max(known, report.outcome, key=_OUTCOMES.index)

    def pytest_sessionfinish(self) -> None:
        """Write the report, also of a run that was interrupted."""
        self.file.parent.mkdir(parents=True, exist_ok=True)
        self.file.write_text("\n".join(self._lines()) + "\n", encoding="utf-8")

    def _lines(self) -> list[str]:
        took = (datetime.now(timezone.utc) - self.began).total_seconds() / 60
        packages = ", ".join(f"{name} {version(name)}" for name in ("pyspark", "dagster"))
        return [
            "# Long tests",
            "",
            (
                f"{self.began:%Y-%m-%d}, {took:.0f} minutes on {cpu_count()} cores, "
                f"Python {platform.python_version()}, {packages}. "
                "Written by `make test-long`; `make test` runs all other tests."
            ),
            "",
            "| Folder | Tests | Passed | Skipped | Failed | Seconds of a worker |",
            "|---|--:|--:|--:|--:|--:|",
            *self._folders(),
            "",
            f"The {_SLOWEST} slowest:",
            "",
            "| Test | Seconds |",
            "|---|--:|",
            *(
                f"| `{_in_a_table(name)}` | {seconds:.0f} |"
                for name, seconds in nlargest(_SLOWEST, self.seconds.items(), key=itemgetter(1))
            ),
        ]

    def _folders(self) -> list[str]:
        counts: dict[str, Counter[str]] = {}
        for name, outcome in self.outcomes.items():
            folder = "/".join(name.split("::")[0].split("/")[:2])
            of_folder = counts.setdefault(folder, Counter())
            of_folder.update([outcome])
            of_folder["seconds"] += round(self.seconds[name])
        return [
            f"| `{folder}` | {sum(found[each] for each in _OUTCOMES)} | "
            + " | ".join(str(found[each]) for each in _OUTCOMES)
            + f" | {found['seconds']} |"
            for folder, found in sorted(counts.items())
        ]


def pytest_configure(config: pytest.Config) -> None:
    """Report the run of the process that was asked to, not those of its workers."""
    file = config.getoption("--report")
    if file and not hasattr(config, "workerinput"):
        config.pluginmanager.register(Report(file), "report")
