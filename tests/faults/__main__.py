"""`python -m tests.faults N --seed S`: N faults over both projects, and a report in Markdown."""

import argparse
import itertools
import platform
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.faults.driver import Report, driving
from tests.faults.peers import STARTS, URL_VARIABLE, Peer, new_peer, private_server
from tests.faults.projects import Scenario, make_scenario

_DAYS = 14


@contextmanager
def scenarios(log: str, folder: Path) -> Iterator[Iterator[tuple[Scenario, Peer | None]]]:
    """One project after the other; run log, catalog and target are of the named kind."""
    names = enumerate(itertools.cycle(["lake", "database"]))
    if log == "sqlite":
        yield ((make_scenario(name, folder / str(turn), _DAYS), None) for turn, name in names)
        return
    with private_server(log) as root:
        yield (_on_server(root, name, folder / str(turn)) for turn, name in names)


def _on_server(root: Path, name: str, folder: Path) -> tuple[Scenario, Peer]:
    peer = new_peer(root, f"faults_{folder.name}")
    return make_scenario(name, folder, _DAYS, f"${{env:{URL_VARIABLE}}}"), peer


def rounds(
    number: int, seed: int, until: float, given: Iterator[tuple[Scenario, Peer | None]]
) -> Iterator[tuple[str, Report]]:
    """Scenario after scenario, each hurt until it is done, until there were enough faults."""
    left = number
    for turn, (scenario, peer) in enumerate(given):
        with driving(scenario, seed * 1000 + turn, peer) as driver:
            while driver.pending and sum(driver.report.faults.values()) < left:
                driver.hurt_at_random()
            driver.finish()
        left -= sum(driver.report.faults.values())
        yield scenario.name, driver.report
        if left <= 0 or time.monotonic() > until:
            return


def main() -> int:
    """Run and print; 1 if an invariant was violated."""
    parser = argparse.ArgumentParser(prog="python -m tests.faults", description=__doc__)
    parser.add_argument("number", type=int)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--minutes", type=float, default=240, help="begin no scenario later")
    parser.add_argument("--log", choices=["sqlite", *STARTS], default="sqlite")
    given = parser.parse_args()
    began, total = time.monotonic(), Report()
    projects = {"lake": Report(), "database": Report()}
    until = began + 60 * given.minutes
    with (
        tempfile.TemporaryDirectory() as folder,
        scenarios(given.log, Path(folder)) as projects_in_turn,
    ):
        for name, report in rounds(given.number, given.seed, until, projects_in_turn):
            projects[name].add(report)
            total.add(report)
            done = sum(total.faults.values())
            sys.stderr.write(f"{done} faults, {len(total.violations)} violations\n")
            sys.stderr.writelines(f"{text}\n" for text in report.violations)
    minutes = (time.monotonic() - began) / 60
    heading = (
        f"`make faults N={given.number} SEED={given.seed} LOG={given.log}`, {minutes:.0f} minutes"
    )
    sys.stdout.write(markdown(heading, projects, total))
    return 1 if total.violations else 0


def markdown(heading: str, projects: dict[str, Report], total: Report) -> str:
    """The report, as `docs/reliability.md` keeps it."""
    reports = [*projects.values(), total]
    figures = {
        "faults": [sum(r.faults.values()) for r in reports],
        "processes started": [r.runs for r in reports],
        "windows done": [r.windows for r in reports],
        "attempts": [r.attempts for r in reports],
        "steps taken over instead of done again": [r.resumed_steps for r in reports],
        "zombies woken up": [r.zombies for r in reports],
        "zombies refused": [r.zombies_refused for r in reports],
        "longest time from death to takeover, s": [f"{r.slowest_takeover:.1f}" for r in reports],
        "violations": [len(r.violations) for r in reports],
    }
    lines = [
        f"{heading}, {platform.machine()}, Python {platform.python_version()}.",
        "",
        "| | " + " | ".join([*projects, "both"]) + " |",
        "| --- |" + " ---: |" * len(reports),
        *(f"| {name} | " + " | ".join(map(str, row)) + " |" for name, row in figures.items()),
        "",
        "| fault, point | times |",
        "| --- | ---: |",
        *(f"| {name} | {times} |" for name, times in sorted(total.faults.items()) if times),
        "",
        *(f"- VIOLATION: {text}" for text in total.violations),
    ]
    return "\n".join(lines).rstrip() + "\n"


if __name__ == "__main__":
    sys.exit(main())
