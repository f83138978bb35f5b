"""S: what a window costs over Spark Connect, beside one in a classic session of its own.

The same windows by three processes in turns: in a session of its own, on a server of the project,
and on one of others. `python -m benchmarks.probes.connecting SOURCE FOLDER DAYS ROUNDS` prints
JSON.
"""

import json
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

import psutil

from benchmarks.contestants.logdriven import TABLE, Variant, server, write_project
from benchmarks.data import midnight
from benchmarks.settings import SPARK, own_environment, own_python
from benchmarks.tasks import Task
from tests.engine.foreign import foreign_server

_WARM_UP = 20
"""Windows at the beginning, which load and compile and are not counted."""


@dataclass
class Way:
    """A process that runs windows when it is told to, one at a time, on some Spark."""

    process: "subprocess.Popen[str]"
    spark: Sequence[int]
    """The processes of a server beside it."""
    seconds: list[float] = field(default_factory=list)
    cpu: list[float] = field(default_factory=list)

    def window(self) -> None:
        """Run the next window, and note what it took."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        before = self._cpu()
        print(file=self.process.stdin, flush=True)
        self.seconds.append(float(self.process.stdout.readline()))
        self.cpu.append(self._cpu() - before)

    def _cpu(self) -> float:
        own = psutil.Process(self.process.pid)
        others = [psutil.Process(pid) for pid in self.spark]
        used = [each.cpu_times() for each in (own, *own.children(recursive=True), *others)]
        return sum(each.user + each.system for each in used)


def main(source: Path, folder: Path, days: int) -> dict[str, Any]:
    """Median milliseconds of a window by each way, and what those over Connect take more."""
    with ExitStack() as opened:
        ways = {
            "classic": opened.enter_context(_classic(source, folder / "classic", days)),
            "own": opened.enter_context(_own(source, folder / "own", days)),
            "foreign": opened.enter_context(_foreign(source, folder / "foreign", days)),
        }
        for day in range(days):
            for name in sorted(ways, reverse=bool(day % 2)):
                ways[name].window()
    ms = {name: [1000 * each for each in way.seconds[_WARM_UP:]] for name, way in ways.items()}
    cpu = {name: 1000 * sum(w.cpu[_WARM_UP:]) / (days - _WARM_UP) for name, w in ways.items()}
    more = {
        name: [one - other for one, other in zip(ms[name], ms["classic"], strict=True)]
        for name in ("own", "foreign")
    }
    told = "; ".join(f"{name} {median(ms[name]):.0f} ms, CPU {cpu[name]:.0f} ms" for name in ways)
    return {
        "title": f"A window over Spark Connect, {days} small windows by each way, alternately",
        "text": f"Medians, and processor time of all processes together: {told}.",
        **{f"{name}_ms": _rounded(values) for name, values in ms.items()},
        **{f"{name}_more_ms": _rounded(values) for name, values in more.items()},
    }


def _rounded(values: list[float]) -> list[float]:
    return [round(value, 1) for value in values]


@contextmanager
def _classic(source: Path, folder: Path, days: int) -> Iterator[Way]:
    write_project(Task("map", source, folder, 0, days), Variant())
    with _worker(folder, days) as process:
        yield Way(process, ())


@contextmanager
def _own(source: Path, folder: Path, days: int) -> Iterator[Way]:
    task = Task("map", source, folder, 0, days)
    write_project(task, Variant(spark=(("remote", "auto"),)))
    server(task, "start")
    try:
        pid = json.loads((folder / ".logdriven" / "spark.json").read_text())["pid"]
        with _worker(folder, days) as process:
            yield Way(process, (pid,))
    finally:
        server(task, "stop")


@contextmanager
def _foreign(source: Path, folder: Path, days: int) -> Iterator[Way]:
    folder.mkdir(parents=True)
    known = {each.pid for each in psutil.Process().children()}
    with foreign_server(folder, SPARK) as url:
        (pid,) = {each.pid for each in psutil.Process().children()} - known
        task = Task("map", source, folder, 0, days)
        write_project(task, Variant(spark=(("remote", url),)))
        with _worker(folder, days) as process:
            yield Way(process, (pid,))


@contextmanager
def _worker(folder: Path, days: int) -> Iterator["subprocess.Popen[str]"]:
    words = [own_python(), "-m", "benchmarks.probes.connecting", str(folder), str(days)]
    pipe = subprocess.PIPE
    process = subprocess.Popen(
        words, env=own_environment(), cwd=folder, stdin=pipe, stdout=pipe, text=True
    )
    try:
        yield process
    finally:
        assert process.stdin is not None
        process.stdin.close()
        process.wait()


def work(folder: Path, days: int) -> None:
    """Run one window for each line that comes in, and tell its seconds."""
    from logdriven_dagster.config import load_project
    from logdriven_dagster.execution.events import WindowStarted, WindowSucceeded
    from logdriven_dagster.execution.opening import open_runner

    events = open_runner(load_project(folder)).catch_up(midnight(days), [TABLE])
    for _ in sys.stdin:
        began = time.perf_counter()
        while not isinstance(event := next(events), WindowSucceeded):
            assert isinstance(event, WindowStarted), event
        print(time.perf_counter() - began, flush=True)


if __name__ == "__main__":
    if len(sys.argv) > 3:
        print(json.dumps(main(Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3]))))
    else:
        work(Path(sys.argv[1]), int(sys.argv[2]))
