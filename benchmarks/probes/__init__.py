"""What is no race between contestants: parts of windows, clicks, ticks, code locations, stores."""

import json
import shutil
import subprocess
import sys
from typing import Any

from benchmarks import data, machine
from benchmarks.settings import WORK, Scale, own_environment, own_python

PROBES = {
    "G": "benchmarks.probes.overhead",
    "H": "benchmarks.probes.counts",
    "J": "benchmarks.probes.click",
    "K": "benchmarks.probes.ticks",
    "L": "benchmarks.probes.code_location",
    "M": "benchmarks.probes.many_files",
    "N": "benchmarks.probes.object_store",
    "O": "benchmarks.probes.telling",
    "P": "benchmarks.probes.many_tables",
    "Q": "benchmarks.probes.event_log",
    "R": "benchmarks.probes.chain",
    "S": "benchmarks.probes.connecting",
    "U": "benchmarks.probes.rules",
}


def run(name: str, scale: Scale, rounds: int) -> dict[str, Any]:
    """Run a probe in a process of its own; what it found."""
    shape = {"H": scale.small, "U": scale.month}.get(name, scale.tiny)
    source = data.make(shape, WORK / "data")
    folder = WORK / "state" / f"probe-{name}"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    told = machine.describe()
    numbers = (shape.days, rounds, scale.tables, scale.hours)
    done = subprocess.run(
        [own_python(), "-m", PROBES[name], str(source), str(folder), *map(str, numbers)],
        env=own_environment(),
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=sys.stderr,
        check=True,
    )
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found | {"machine": f"{told['when']}, load before: {told['load_before']}."}
