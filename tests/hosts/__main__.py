"""`python -m tests.hosts`: three hosts that share nothing run projects, are cut off and killed.

It prints a report in Markdown, as docs/multiple-hosts.md holds it; exit code 1: a violation.
"""

import argparse
import sys
import time
from pathlib import Path

from tests.hosts.acts import ACTS, World
from tests.hosts.machines import machines


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.hosts", description=__doc__)
    parser.add_argument("--only", choices=[act.__name__ for act in ACTS], action="append")
    parser.add_argument("--logs", type=Path, help="a folder that keeps what the hosts wrote")
    given = parser.parse_args()
    found, lines = [], ["| act | what came of it | seconds |", "| --- | --- | ---: |"]
    with machines("storage", "spark", "dagster", "second") as hosts:
        world = World(hosts)
        try:
            world.open()
            for act in ACTS:
                if given.only and act.__name__ not in given.only:
                    continue
                began = time.monotonic()
                told, violations = act(world)
                found += violations
                name = (act.__doc__ or "").partition(".")[0]
                lines.append(f"| {name} | {told} | {time.monotonic() - began:.0f} |")
                sys.stderr.writelines(f"{line}\n" for line in (lines[-1], *violations))
        finally:
            if given.logs:
                world.keep_logs(given.logs)
    lines += ["", f"{len(found)} violations", *(f"- VIOLATION: {text}" for text in found)]
    sys.stdout.writelines(f"{line}\n" for line in lines)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
