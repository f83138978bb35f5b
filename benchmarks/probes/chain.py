"""R: a chain of three tables against its pieces, each alone over the same rows as Parquet files.

A process each in turns, which starts Spark once: one catches up the project of the chain, the other
one a project of each table, one behind the other. The last table's rows are compared with those
of plain Spark. `python -m benchmarks.probes.chain SOURCE FOLDER DAYS ROUNDS` prints JSON.
"""

import json
import shutil
import sys
from pathlib import Path
from statistics import median
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.chain import CHAINS, write_chain, write_pieces
from benchmarks.data import midnight
from benchmarks.process import Measured, adopt_orphans, run
from benchmarks.settings import own_environment, own_python
from benchmarks.tasks import Command

_SAID = {
    "windows": "each reads windows of the one before",
    "whole": "the second one also reads a small table as a whole",
}
_PATIENCE_SECONDS = 3600


def main(source: Path, folder: Path, days: int, rounds: int) -> dict[str, Any]:
    """Seconds and processor seconds of both ways, and their ratios round by round."""
    adopt_orphans()
    _process(folder, "rows", str(source), str(folder / "rows"), str(days))
    found: dict[str, dict[str, list[Measured]]] = {}
    for number in range(rounds):
        for name in CHAINS:
            took = found.setdefault(name, {"chain": [], "pieces": []})
            for way in sorted(took, reverse=bool(number % 2)):
                took[way].append(_timed(folder, name, way, days))
    return {
        "title": f"A chain of three tables over {days} days against its pieces",
        "text": "Seconds and processor seconds of whole processes, medians. "
        "The pieces are each table alone over the same rows as Parquet files.",
        "table": {
            "head": ["measure", "chain s", "pieces s", "chain CPU", "pieces CPU"],
            "rows": [(_SAID[name], *_medians(took)) for name, took in found.items()],
        },
        **{f"{name}_ratio": _ratios(took, "seconds") for name, took in found.items()},
        **{f"{name}_cpu_ratio": _ratios(took, "cpu_seconds") for name, took in found.items()},
    }


def _medians(took: dict[str, list[Measured]]) -> list[str]:
    figures = [
        [getattr(each, figure) for each in took[way]]
        for figure in ("seconds", "cpu_seconds")
        for way in ("chain", "pieces")
    ]
    return [f"{median(values):.1f}" for values in figures]


def _ratios(took: dict[str, list[Measured]], figure: str) -> list[float]:
    pairs = zip(took["chain"], took["pieces"], strict=True)
    return [round(getattr(one, figure) / getattr(other, figure), 3) for one, other in pairs]


def _timed(folder: Path, name: str, way: str, days: int) -> Measured:
    """Run one way in an empty folder, and end everything if the last table's rows are wrong."""
    state, rows, chain = folder / "state", folder / "rows" / name, CHAINS[name]
    shutil.rmtree(state, ignore_errors=True)
    if way == "chain":
        write_chain(chain, state, rows)
        projects = [state]
    else:
        projects = write_pieces(chain, state, rows)
    took = _process(folder, "run", midnight(days).isoformat(), *map(str, projects))
    if _written(projects[-1]) != _sorted(pq.read_table(rows / "right")):
        sys.exit(f"{name}, {way}: wrong rows")
    print(f"{name}, {way}: {took.seconds:.1f} s, {took.cpu_seconds:.1f} s of CPU", file=sys.stderr)
    return took


def _process(folder: Path, *words: str) -> Measured:
    command = Command((own_python(), "-m", "benchmarks.chain", *words), own_environment(), folder)
    return run(command, folder / f"{words[0]}.log", _PATIENCE_SECONDS)


def _written(project: Path) -> list[tuple[Any, ...]]:
    from logdriven_dagster.config import load_project
    from logdriven_dagster.engine.targets.iceberg.catalog import open_catalog

    table = open_catalog(load_project(project)).load_table("dws.totals")
    return _sorted(table.scan().to_arrow())


def _sorted(table: pa.Table) -> list[tuple[Any, ...]]:
    names = ("day", "country", "kind", "orders", "revenue", "last_at")
    rows = zip(*(table[name].to_pylist() for name in names), strict=True)
    return sorted(rows, key=str)


if __name__ == "__main__":
    source, folder, days, rounds = sys.argv[1:5]
    print(json.dumps(main(Path(source), Path(folder), int(days), int(rounds))))
