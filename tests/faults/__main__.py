"""`python -m tests.faults N --seed S`: N faults over both projects, and a report in Markdown.

With `--windows W --rate R` two long projects of W windows together, a share R of which is hurt.
"""

import argparse
import itertools
import math
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path

from tests.faults.driver import OFTEN, driving
from tests.faults.peers import STARTS, URL_VARIABLE, Peer, new_peer, private_server
from tests.faults.projects import Scenario, make_scenario
from tests.faults.report import Report, markdown
from tests.faults.stores import Stores, failing_stores

_DAYS = 14
_TABLES = 5
"""Of both projects together."""


@contextmanager
def scenarios(
    log: str, folder: Path, windows: int | None, stores: Stores | None
) -> Iterator[Iterator[tuple[Scenario, Peer | None]]]:
    """One project after the other; run log, catalog and target are of the named kind."""
    names = itertools.cycle(["lake", "database"])
    days = windows // _TABLES if windows else _DAYS
    turns = enumerate(itertools.islice(names, 2 if windows else None))
    if log == "sqlite":

        def make(turn: int, name: str) -> tuple[Scenario, Peer | None]:
            scenario = make_scenario(
                name, folder / str(turn), days, stores=stores, batch_size=_choose_batch_size(turn)
            )
            return scenario, None

        yield itertools.starmap(make, turns)
        return
    with private_server(log) as root:

        def make_on_server(turn: int, name: str) -> tuple[Scenario, Peer | None]:
            peer, url = new_peer(root, f"faults_{turn}"), f"${{env:{URL_VARIABLE}}}"
            scenario = make_scenario(
                *(name, folder / str(turn), days, url),
                stores=stores,
                batch_size=_choose_batch_size(turn),
            )
            return scenario, peer

        yield itertools.starmap(make_on_server, turns)


def _choose_batch_size(turn: int) -> str:
    """Return the `batch_size` of a project: in turn single windows and batches, of both kinds."""
    return "1" if turn // 2 % 2 == 0 else "auto"


def rounds(
    number: float,
    seed: int,
    rate: float,
    until: float,
    given: Iterator[tuple[Scenario, Peer | None]],
    *,
    stores: Stores | None = None,
) -> Iterator[tuple[str, Report]]:
    """Scenario after scenario, each hurt until it is done, until there were enough faults."""
    left = number
    for turn, (scenario, peer) in enumerate(given):
        with driving(scenario, seed * 1000 + turn, peer, rate) as driver:
            if stores is not None:
                stores.trouble()
            while (
                driver.pending
                and sum(driver.report.faults.values()) < left
                and time.monotonic() < until
            ):
                driver.hurt_at_random()
            if stores is not None:
                driver.report.faults += stores.calm()
            driver.finish()
        left -= sum(driver.report.faults.values())
        yield scenario.name, driver.report
        if left <= 0 or time.monotonic() > until:
            return


def main() -> int:
    """Run and print; 1 if an invariant was violated."""
    parser = argparse.ArgumentParser(prog="python -m tests.faults", description=__doc__)
    parser.add_argument("number", type=int, nargs="?", help="of faults; default: no limit")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--minutes", type=float, default=240, help="hurt nothing later")
    parser.add_argument("--log", choices=["sqlite", *STARTS], default="sqlite")
    parser.add_argument(
        "--storage", choices=["local", "s3"], default="local", help="s3: with a REST catalog"
    )
    parser.add_argument("--windows", type=int, help="of two projects that are run to their end")
    parser.add_argument("--rate", type=float, default=OFTEN, help="share of windows to hurt")
    parser.add_argument("--out", type=Path, help="a file that holds the report so far")
    given = parser.parse_args()
    if not given.number and not given.windows:
        parser.error("how many faults, or --windows?")
    began, total = time.monotonic(), Report()
    projects = {"lake": Report(), "database": Report()}
    until = began + 60 * given.minutes
    with (
        tempfile.TemporaryDirectory() as folder,
        failing_stores(Path(folder)) if given.storage == "s3" else nullcontext() as stores,
        scenarios(given.log, Path(folder), given.windows, stores) as in_turn,
    ):
        number = given.number or math.inf
        for name, report in rounds(number, given.seed, given.rate, until, in_turn, stores=stores):
            projects[name].add(report)
            total.add(report)
            done = sum(total.faults.values())
            sys.stderr.write(f"{done} faults, {len(total.violations)} violations\n")
            sys.stderr.writelines(f"{text}\n" for text in report.violations)
            if given.out:
                given.out.write_text(summary(given, began, projects, total))
    sys.stdout.write(summary(given, began, projects, total))
    return 1 if total.violations else 0


def summary(
    given: argparse.Namespace, began: float, projects: dict[str, Report], total: Report
) -> str:
    """The report so far, with the command that makes it again."""
    minutes = (time.monotonic() - began) / 60
    asked = f"N={given.number}" if given.number else f"WINDOWS={given.windows} RATE={given.rate}"
    places = f"LOG={given.log} STORAGE={given.storage}"
    heading = f"`make faults {asked} SEED={given.seed} {places}`, {minutes:.0f} minutes"
    return markdown(heading, projects, total)


if __name__ == "__main__":
    sys.exit(main())
