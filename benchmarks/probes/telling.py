"""O: what it costs a window to be told to OpenLineage, or as spans to OpenTelemetry.

In one session, window by window in turns: nobody listens, OpenLineage, OpenTelemetry. Both send to
a receiver in a process of its own. The seconds are those that the run waits for its window; the
processor's are those of this process, Spark's JVM left out, until everything is sent.
`python -m benchmarks.probes.telling SOURCE FOLDER DAYS ROUNDS` prints JSON.
"""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.contestants.logdriven import Variant, write_project
from benchmarks.data import midnight
from benchmarks.probes.overhead import _ours
from benchmarks.tasks import Task

_CALLS = 10_000
_WAYS = ("none", "OpenLineage", "OpenTelemetry")
_RECEIVER = """
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

class Receiver(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_):
        pass

server = ThreadingHTTPServer(("127.0.0.1", 0), Receiver)
print(server.server_port, flush=True)
server.serve_forever()
"""


def main(source: Path, folder: Path, days: int) -> dict[str, Any]:
    """Median milliseconds of a window for each way, and of the calls where nobody listens."""
    with _receiver() as url:
        os.environ |= {"OPENLINEAGE_URL": url, "OTEL_EXPORTER_OTLP_ENDPOINT": url}
        return _measured(source, folder, days)


def _measured(source: Path, folder: Path, days: int) -> dict[str, Any]:
    from logdriven_dagster.config import load_project
    from logdriven_dagster.engine import spark_session
    from logdriven_dagster.execution.opening import open_runner

    task = Task("map", source, folder, 0, days)
    write_project(task, Variant())
    project = load_project(folder)
    spark = spark_session(project)
    runner = open_runner(project, spark=lambda: spark)
    events = runner.catch_up(midnight(days), ["bench.orders"])
    listen = _listeners()
    waited: dict[str, list[float]] = {way: [] for way in _WAYS}
    worked: dict[str, list[float]] = {way: [] for way in _WAYS}
    for day in range(days):
        turn, place = divmod(day, len(_WAYS))
        way = _WAYS[(turn + place) % len(_WAYS)]
        sent = listen(way)
        began, processor = time.perf_counter(), time.process_time()
        done = _ours(events)
        took = time.perf_counter() - began
        sent()
        if day >= days // 10:  # those before compile
            waited[way].append(1000 * took)
            worked[way].append(1000 * (time.process_time() - processor))
    listen("none")
    silent = 1000 * _of_calls([done])
    spark.stop()
    more = {way: median(worked[way]) - median(worked["none"]) for way in _WAYS}
    rows = [
        [way, f"{median(waited[way]):.1f}", f"{median(worked[way]):.1f}", f"{more[way]:+.1f}"]
        for way in _WAYS
    ]
    return {
        "title": f"Cost of reporting a window, {days} small windows in one session, alternately",
        "text": f"Medians. Without a listener the calls take {1000 * silent:.0f} µs a window.",
        "table": {
            "head": ["listener", "window, ms", "processor, ms", "more processor, ms"],
            "rows": rows,
        },
        "silent_ms": [round(silent, 4)],
        "openlineage_ms": [round(more["OpenLineage"], 2)],
        "opentelemetry_ms": [round(more["OpenTelemetry"], 2)],
    }


def _listeners() -> Callable[[str], Callable[[], None]]:
    """Let windows be told in a way; what is returned waits until it is sent."""
    from opentelemetry import trace

    from logdriven_dagster.plugins.telemetry import open_lineage
    from logdriven_dagster.plugins.telemetry import open_telemetry as tracing

    tracer, sender = tracing._tracer(), open_lineage._sender()  # noqa: SLF001
    provider: Any = trace.get_tracer_provider()
    assert tracer is not None
    assert sender is not None

    def sent() -> None:
        while not sender._waiting.empty():  # noqa: SLF001
            time.sleep(0.001)
        provider.force_flush()
        time.sleep(0.03)  # the last event, which was taken from the queue, goes its way

    def listen(way: str) -> Callable[[], None]:
        tracing._tracer = lambda: tracer if way == "OpenTelemetry" else None  # noqa: SLF001
        open_lineage._sender = lambda: sender if way == "OpenLineage" else None  # noqa: SLF001
        return sent

    return listen


def _of_calls(ends: Sequence[Any]) -> float:
    """Seconds of all that a window calls in order to be told, if nobody listens."""
    from logdriven_dagster.execution.listeners.registered import load_installed_listeners

    listeners, attempts = load_installed_listeners(), [end.attempt for end in ends]
    began = time.perf_counter()
    for _ in range(_CALLS):
        listeners.on_claim(attempts)
        with listeners.observe_windows(attempts):
            with listeners.observe_work(attempts):
                with listeners.observe_part("step load") as report:
                    report(rows_read=1)
                with listeners.observe_part("publish load") as report:
                    report(target="orders")
            listeners.on_end(ends, None)
        listeners.on_lineage(ends)
    return (time.perf_counter() - began) / _CALLS


@contextmanager
def _receiver() -> Iterator[str]:
    with subprocess.Popen([sys.executable, "-c", _RECEIVER], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        try:
            yield f"http://127.0.0.1:{int(process.stdout.readline())}"
        finally:
            process.kill()


if __name__ == "__main__":
    print(json.dumps(main(Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3]))))
