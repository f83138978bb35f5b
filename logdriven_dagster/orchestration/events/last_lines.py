"""The cause of a failed run as the last lines of a command of Dagster.

`dagster job execute` and `dagster asset materialize` print the error of a step between two
tracebacks, and end with `run … resulted in failure`. Readers of a CI log look at the end.
"""

import atexit
import sys
from collections.abc import Iterable
from pathlib import Path

_COMMANDS = (["job", "execute"], ["asset", "materialize"])
_causes: list[str] = []


def print_at_exit(causes: Iterable[str]) -> None:
    """Print these lines on stderr when this process ends, if it is such a command."""
    if Path(sys.argv[0]).name != "dagster" or sys.argv[1:3] not in _COMMANDS:
        return
    if not _causes:
        atexit.register(_print)
    _causes.extend(causes)


def _print() -> None:
    sys.stderr.write("\n" + "\n".join(dict.fromkeys(_causes)) + "\n")
