"""K: what planning, ticks, claims and looks at the log cost over a long history.

A thousand tables, SQLite, one log ten times as long as the other; `benchmarks.scale` does the same
on PostgreSQL and MariaDB. The longer one has 27 windows of each table for each of the days.
`python -m benchmarks.probes.ticks SOURCE FOLDER DAYS ROUNDS` prints JSON.
"""

import json
import sys
from typing import Any

from benchmarks.big_projects import Shape
from benchmarks.scale import logs, measure, ratios

_TABLES = 1000
_WINDOWS = 27
_ROUNDS = 5


def main(days: int, rounds: int) -> dict[str, Any]:
    """Action → milliseconds over both logs, and the ratio of the longer to the shorter."""
    shapes = [Shape(_TABLES, _WINDOWS * days // 10), Shape(_TABLES, _WINDOWS * days)]
    with logs(["sqlite"], shapes) as urls:
        short, long = figures = measure(urls["sqlite"], rounds * _ROUNDS)
    over = ratios(figures)
    attempts = [f"{each['attempts']:,} attempts, ms" for each in figures]
    rows = [
        (name, f"{short['milliseconds'][name]['median']:,.1f}", f"{took['median']:,.1f}")
        for name, took in long["milliseconds"].items()
    ]
    tick = long["milliseconds"]["sensor tick"]
    scrape = long["milliseconds"]["metrics, next scrapes"]
    return {
        "title": f"Planning and ticks, {_TABLES:,} tables, SQLite",
        "text": "Medians; the logs took turns.",
        "table": {
            "head": ["measure", *attempts, "ratio"],
            "rows": [[*row, f"{over[row[0]][-1]:.2f}"] for row in rows],
        },
        "tick_ms": [tick["lowest"], tick["median"], tick["highest"]],
        "metrics_ms": [scrape["lowest"], scrape["median"], scrape["highest"]],
    }


if __name__ == "__main__":
    print(json.dumps(main(*map(int, sys.argv[3:5]))))
