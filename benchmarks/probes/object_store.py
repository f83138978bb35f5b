"""N: what a window of an Iceberg table costs on an object store, beside the same on a disk.

`python -m benchmarks.probes.object_store SOURCE FOLDER DAYS ROUNDS` prints JSON. Both are one
JVM's, which sees the bucket as a folder; Python asks an S3 server in a process of its own.
"""

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Any
from urllib.error import URLError
from urllib.request import Request, urlopen

from benchmarks.contestants.logdriven import TABLE, Variant, write_project
from benchmarks.contestants.standalone import free_port
from benchmarks.data import midnight
from benchmarks.settings import own_environment, own_python
from benchmarks.tasks import Task
from scripts.lake.blocks import with_secrets_outside
from scripts.lake.s3 import properties, spark_settings

_BUCKET = "lake"
_WARM_UP = 10
"""Windows of each side at the beginning, which compile and are not counted."""
_WINDOWS = 20
"""Windows of each side in a round."""
_PATIENCE_SECONDS = 60


def main(source: Path, folder: Path, rounds: int) -> dict[str, Any]:
    """Milliseconds of a window on both, round by round, and the requests of one on the store."""
    bucket = folder / "bucket"
    bucket.mkdir()
    with _server(bucket) as url:
        sides = {
            "a local disk": _project(source, folder / "local", bucket, {}),
            "S3": _project(source, folder / "s3", bucket, _on_s3(url)),
        }
        request = _milliseconds_of_a_request(sides["S3"])
        found = _measured(sides, rounds, url)
    requests = found.pop("requests")
    local, remote = found["a local disk"], found["S3"]
    pairs = zip(local, remote, requests, strict=True)
    ratios = [(theirs - number * request) / ours for ours, theirs, number in pairs]
    return {
        "title": "A window of an Iceberg table on S3, compared with a local disk",
        "text": f"A day of 1,000 rows, medians of {rounds} rounds of {_WINDOWS} windows: "
        f"{median(local):.0f} ms on the disk, {median(remote):.0f} ms on S3, of which "
        f"{median(requests):.1f} requests of {request:.1f} ms each.",
        "local_ms": local,
        "s3_ms": remote,
        "requests": requests,
        "request_ms": round(request, 2),
        "ratio": [round(ratio, 3) for ratio in ratios],
    }


def _on_s3(url: str) -> dict[str, Any]:
    return {
        "warehouse": f"s3://{_BUCKET}/warehouse",
        "storage": with_secrets_outside(properties(url)),
    }


def _project(source: Path, folder: Path, bucket: Path, storage: dict[str, Any]) -> Any:
    from logdriven_dagster.config import load_project

    settings = {"catalog": f"sqlite:///{folder}/catalog.db", **storage}
    variant = Variant(target="iceberg", project=tuple(settings.items()))
    write_project(Task("map", source, folder, 0, 365), variant)
    project = load_project(folder)
    project.config.spark.config.update(spark_settings(_BUCKET, bucket))
    return project


def _measured(sides: dict[str, Any], rounds: int, url: str) -> dict[str, list[float]]:
    """Milliseconds of a window by side and round, and requests of one by round."""
    from logdriven_dagster.engine import spark_session
    from logdriven_dagster.execution.opening import open_runner

    spark = spark_session(next(iter(sides.values())))
    runners = {name: open_runner(project, spark=lambda: spark) for name, project in sides.items()}
    took: dict[str, list[float]] = {name: [] for name in sides}
    found: dict[str, list[float]] = {name: [] for name in (*sides, "requests")}
    for day in range(1, _WARM_UP + rounds * _WINDOWS + 1):
        for name in sorted(sides, reverse=bool(day % 2)):
            began = time.perf_counter()
            done = list(runners[name].catch_up(midnight(day), [TABLE]))
            took[name].append(1000 * (time.perf_counter() - began))
            assert [type(event).__name__ for event in done][-1] == "WindowSucceeded", done
        if day >= _WARM_UP and (day - _WARM_UP) % _WINDOWS == 0:
            asked = _requests(url)
            if day > _WARM_UP:
                found["requests"].append(asked / _WINDOWS)
                for name, times in took.items():
                    found[name].append(round(median(times), 1))
            took = {name: [] for name in sides}
    spark.stop()
    return found


def _milliseconds_of_a_request(project: Any) -> float:
    """The median of small objects that are put and got."""
    from pyiceberg.io.fsspec import FsspecFileIO

    store = FsspecFileIO(dict(project.storage)).get_fs("s3")
    times = []
    for number in range(100):
        began = time.perf_counter()
        store.pipe_file(f"{_BUCKET}/ping/{number}", b"x" * 1000)
        store.cat_file(f"{_BUCKET}/ping/{number}")
        times.append(1000 * (time.perf_counter() - began) / 2)
    return median(times)


def _requests(url: str) -> int:
    """How many requests there were since the last call."""
    with urlopen(f"{url}/_requests") as answer:
        counts: dict[str, int] = json.load(answer)
    urlopen(Request(f"{url}/_requests", method="DELETE")).close()
    return sum(counts.values())


@contextmanager
def _server(bucket: Path) -> Iterator[str]:
    port = free_port()
    words = [own_python(), "-m", "scripts.lake.s3", f"{_BUCKET}={bucket}", "--port", str(port)]
    url = f"http://127.0.0.1:{port}"
    process = subprocess.Popen(words, env=own_environment())
    try:
        deadline = time.monotonic() + _PATIENCE_SECONDS
        while not _answers(url):
            assert time.monotonic() < deadline
            time.sleep(0.1)
        yield url
    finally:
        process.terminate()
        process.wait()


def _answers(url: str) -> bool:
    try:
        _requests(url)
    except URLError:
        return False
    return True


if __name__ == "__main__":
    print(json.dumps(main(Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[4]))))
