"""Processes race for small windows: how fast, how often turned away, and each window once.

`python benchmarks/race.py [--processes 8] [--windows 2000]` starts the servers that it needs.
Claims and ends without Spark: what is measured is the run log. The processes are released together;
each one goes through the windows in the same order, so that all of them want the same one.
"""

import argparse
import json
import multiprocessing
import sys
import tempfile
import time
from collections import Counter
from datetime import datetime, timedelta, timezone
from multiprocessing.synchronize import Barrier
from pathlib import Path
from typing import Any

from sqlalchemy import create_engine, func, select, text
from sqlalchemy.engine import URL, make_url

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from logdriven_dagster.errors import AlreadyDoneError, AlreadyRunningError
from logdriven_dagster.model.attempts import AttemptOutcome, Claim, Owner, Status, Trigger
from logdriven_dagster.model.windows import TimeWindow
from logdriven_dagster.runlog import RunLog
from logdriven_dagster.runlog.attempts import claiming, ending
from logdriven_dagster.runlog.homes import LogProject
from logdriven_dagster.runlog.schema.attempts import job_log
from scripts import servers

_RACE = LogProject("race", "", "", None)
START = datetime(2000, 1, 1, tzinfo=timezone.utc)


def race(url: str, runner: int, windows: int, barrier: Barrier, results: Any) -> None:
    """One process: claim and finish every window that nobody else has."""
    log = RunLog.open(make_url(url))
    log.enter(_RACE)
    barrier.wait()
    refused, latencies, done = Counter[str](), [], AttemptOutcome(Status.SUCCESS)
    for n in range(windows):
        start = START + timedelta(days=n)
        owner = Owner("race", runner, runner)
        window = TimeWindow(start, start + timedelta(days=1))
        claim = Claim(
            *("t", window, 1440, "time_window", "race", Trigger.PENDING, owner, START), steps=("s",)
        )
        began = time.perf_counter()
        try:
            attempt = log.write(lambda conn, claim=claim: claiming.claim(conn, [claim])[0])
        except (AlreadyDoneError, AlreadyRunningError) as error:
            refused[type(error).__name__] += 1
            continue
        latencies.append(time.perf_counter() - began)
        log.write(lambda conn, attempt=attempt: ending.succeed(conn, [attempt], done, {}))
    results.put((len(latencies), dict(refused), latencies))


def run(url: URL, processes: int, windows: int) -> dict[str, Any]:
    """One race on an empty log; AssertionError if a window was done twice or not at all."""
    text_url = url.render_as_string(hide_password=False)
    log = RunLog.open(url)
    log.enter(_RACE)
    log.write(_RACE.record)
    context = multiprocessing.get_context("spawn")
    barrier, results = context.Barrier(processes + 1), context.Queue()
    runners = [
        context.Process(target=race, args=(text_url, n, windows, barrier, results))
        for n in range(processes)
    ]
    for runner in runners:
        runner.start()
    barrier.wait()
    began = time.perf_counter()
    told = [results.get(timeout=900) for _ in runners]
    seconds = time.perf_counter() - began
    for runner in runners:
        runner.join()
    with log.read() as conn:
        assert conn.scalar(select(func.count()).where(job_log.c.status == "RUNNING")) == 0
        query = select(job_log.c.job_schedule_id, func.count()).where(job_log.c.status == "SUCCESS")
        done = dict(conn.execute(query.group_by(job_log.c.job_schedule_id)).all())
    assert len(done) == windows
    assert set(done.values()) == {1}
    latencies = sorted(latency for _, _, each in told for latency in each)
    refused = sum((Counter(each) for _, each, _ in told), Counter[str]())
    return {
        "windows": windows,
        "processes": processes,
        "windows_per_second": round(windows / seconds, 1),
        "claim_ms_p50": round(1000 * latencies[len(latencies) // 2], 2),
        "claim_ms_p99": round(1000 * latencies[int(len(latencies) * 0.99)], 2),
        "refused": dict(refused),
        "won_by_each": sorted(won for won, _, _ in told),
    }


def main() -> None:
    """Race on the three databases and print a line of JSON for each."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--processes", type=int, default=8)
    parser.add_argument("--windows", type=int, default=2000)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        root = Path(f"/tmp/logdriven-race-{time.time_ns()}")
        urls = {"sqlite": f"sqlite:///{folder}/log.db"}
        try:
            for url in servers.start(root).values():
                server = make_url(url)
                with create_engine(server, isolation_level="AUTOCOMMIT").connect() as conn:
                    conn.execute(text("CREATE DATABASE race"))
                urls[server.get_backend_name()] = server.set(database="race").render_as_string(
                    hide_password=False
                )
            for name, url in urls.items():
                figures = run(make_url(url), given.processes, given.windows)
                sys.stdout.write(json.dumps({"database": name, **figures}) + "\n")
                sys.stdout.flush()
        finally:
            servers.stop(root)


if __name__ == "__main__":
    main()
