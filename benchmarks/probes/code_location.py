"""L: how a code location of a thousand tables loads, beside a thousand assets written by hand.

`python -m benchmarks.probes.code_location SOURCE FOLDER DAYS ROUNDS` prints JSON; see
`benchmarks.loading` for what is compared.
"""

import json
import sys
from statistics import median
from typing import Any

from benchmarks.loading import FIGURES, measure

_TABLES = 1000


def main(rounds: int) -> dict[str, Any]:
    """Seconds and megabytes of both, and the rounds' own ratios."""
    found = measure(_TABLES, rounds + 2)
    rows, over = [], {}
    for n, name in enumerate(FIGURES):
        by_hand, ours = ([each[n] for each in found[who]] for who in ("by hand", "ours"))
        over[name] = [mine / theirs for mine, theirs in zip(ours, by_hand, strict=True)]
        rows.append((name, *(f"{median(each):.2f}" for each in (by_hand, ours, over[name]))))
    return {
        "title": f"A code location of {_TABLES:,} tables, compared with as many "
        "hand-written assets",
        "text": "Medians; ratios are medians of the ratios of rounds. All modules are loaded "
        "before definitions are timed.",
        "table": {"head": ["measure", "by hand", "logdriven", "ratio"], "rows": rows},
        "seconds_ratio": over["processor seconds"],
        "megabytes_ratio": over["megabytes"],
    }


if __name__ == "__main__":
    print(json.dumps(main(int(sys.argv[4]))))
