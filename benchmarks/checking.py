"""Whether a contestant wrote the right rows: counts by the day, and a hash of every column.

DuckDB computes what is right from the generated data and reads what was written. The hash is a sum
over rows, so their order does not matter.
"""

import json
import subprocess
from pathlib import Path

from benchmarks.environments import python_of
from benchmarks.settings import WORK, own_environment
from benchmarks.tasks import Task, Written


class WrongRowsError(Exception):
    """A result differs from what is right; the message says where."""


def verify(task: Task, written: Written) -> int:
    """The number of rows of a right result; WrongRowsError for a wrong one."""
    expected = WORK / "expected" / f"{task.source.name}-{task.transform}-{task.end}.json"
    if not expected.exists():
        answered = _ask(task, "right", Written())
        expected.parent.mkdir(parents=True, exist_ok=True)
        expected.write_text(answered)
    if written.table is not None:
        written = Written((_exported(task, written.table),))
    if not written.files:
        raise WrongRowsError("nothing was written")
    right, found = json.loads(expected.read_text()), json.loads(_ask(task, "written", written))
    compare(right, found)
    return sum(count for count, _ in right.values())


def compare(right: dict[str, list[object]], found: dict[str, list[object]]) -> None:
    """WrongRowsError names the days that differ: missing, too many, or with other values."""
    wrong = sorted(day for day in right.keys() | found.keys() if right.get(day) != found.get(day))
    if not wrong:
        return
    day = wrong[0]
    one, other = right.get(day, [0, "0"]), found.get(day, [0, "0"])
    what = "rows" if one[0] != other[0] else "values"
    raise WrongRowsError(
        f"{len(wrong)} days differ, the first is {day}: {other[0]} rows instead of {one[0]}"
        if what == "rows"
        else f"{len(wrong)} days differ, the first is {day}: {one[0]} rows with other values"
    )


def _ask(task: Task, what: str, written: Written) -> str:
    question = {
        "what": what,
        "transform": task.transform,
        "source": str(task.source),
        "end": task.end,
        "files": [str(file) for file in written.files],
        "hive": written.hive,
    }
    done = subprocess.run(
        [str(python_of("reader")), "-m", "benchmarks.reader"],
        input=json.dumps(question),
        env=own_environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise WrongRowsError(f"cannot be read: {done.stderr[-1000:]}")
    return done.stdout


def _exported(task: Task, table: str) -> Path:
    """A table of PostgreSQL as a file that DuckDB reads."""
    import psycopg

    assert task.database is not None
    path = task.state / f"{table}.csv"
    address = task.database.replace("+psycopg", "")
    copy = f"COPY {table} TO STDOUT (FORMAT csv, HEADER)"
    with psycopg.connect(address) as conn, conn.cursor().copy(copy) as rows, path.open("wb") as out:
        for block in rows:
            out.write(block)
    return path
