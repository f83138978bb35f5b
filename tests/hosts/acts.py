"""What happens to the hosts, one act after the other; each tells what it saw and what was wrong."""

import json
import shutil
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

from logdriven_dagster.examples import demo
from tests.faults.projects import make_scenario
from tests.hosts import services
from tests.hosts.dagster import Dagster
from tests.hosts.machines import DISK, Host, Process
from tests.hosts.projects import LEASE_SECONDS, SECRETS, add_python, deliver, elsewhere, spans
from tests.patience import PATIENCE

Told: TypeAlias = tuple[str, list[str]]
_FLIGHTS, _FAULTS = "flights", "faults"
_FIRST_DAY = "2013-01-10"
_DAYS = 20
_HURT, _BESIDE = 6, 4
"""The most windows of a run that is hurt, and of the concurrent run."""
_CUT_SECONDS = 4 * LEASE_SECONDS


class World:
    """Storage, Spark and two hosts that run projects; each of these has a copy of its own."""

    def __init__(self, hosts: dict[str, Host]) -> None:
        self.storage, self.spark = hosts["storage"], hosts["spark"]
        self.first, self.second = hosts["dagster"], hosts["second"]
        self.dagster = Dagster(self.first, self.storage, DISK / _FLIGHTS)

    def open(self) -> None:
        """Start what the hosts offer each other, and put the projects on their disks."""
        services.start_storage(self.storage)
        for name in (_FLIGHTS, _FAULTS, "dagster"):
            services.create_database(self.storage, name)
        services.start_spark(self.spark, self.storage)
        with tempfile.TemporaryDirectory() as name:
            flights, faults = Path(name, _FLIGHTS), Path(name, _FAULTS)
            demo.prepare(flights)
            add_python(flights)
            self._to_bucket(flights / "data", _FLIGHTS)
            self._deliver(flights, data=f"s3://{services.BUCKET}/{_FLIGHTS}-data")
            make_scenario("lake", faults, _DAYS)
            self._to_bucket(faults / "data", _FAULTS)
            self._deliver(faults)
        self.end_at("2013-01-18")
        for name in (_FLIGHTS, _FAULTS):  # their run logs have tables from now on
            self.first.run("logdriven", "plan", "--project", DISK / name, **SECRETS)
        self.dagster.start()

    def _to_bucket(self, data: Path, name: str) -> None:
        shutil.move(data, self.storage.disk / services.BUCKET / f"{name}-data")

    def _deliver(self, folder: Path, **variables: str) -> None:
        places = elsewhere(self.storage, self.spark, folder.name)
        for host in (self.first, self.second):
            deliver(folder, host, {**places, "variables": variables})

    def end_at(self, day: str) -> None:
        """Let the flights go on until a day, on every host."""
        for host in (self.first, self.second):
            spans(host.disk / _FLIGHTS, _FIRST_DAY, day)

    def repair(self) -> None:
        """Put the good file of flights in the place of the bad one."""
        data = self.storage.disk / services.BUCKET / f"{_FLIGHTS}-data"
        (data / "flights.good.csv").replace(data / "flights.csv")

    def catch_up(self, host: Host, name: str, *options: str) -> Process:
        """Start a catch-up as an operator does."""
        command = ["logdriven", "run", "--project", DISK / name, *options]
        return host.start(*command, log=f"run-{name}", **SECRETS)

    def settle(self, host: Host, name: str) -> None:
        """Run until a catch-up ends well: what broke with a host may have to be tried again."""
        deadline = time.monotonic() + 2 * PATIENCE
        while self.catch_up(host, name).wait(PATIENCE):
            if time.monotonic() > deadline:
                raise RuntimeError(f"{name} does not come to an end on {host.name}")
            time.sleep(LEASE_SECONDS)

    def asked(self, name: str, query: str) -> str:
        """What the run log answers, asked where it lies."""
        return services.query(self.storage, name, query)

    def done(self, name: str) -> int:
        return int(self.asked(name, "SELECT count(*) FROM job_log WHERE status = 'SUCCESS'"))

    def hurt(self) -> Process:
        """Start a run of a few windows on the first host, and wait until it is in their midst."""
        before = self.done(_FAULTS)
        process = self.catch_up(self.first, _FAULTS, "--max-windows", str(_HURT))
        busy = "SELECT count(*) FROM job_log WHERE status = 'RUNNING'"
        while self.done(_FAULTS) == before or not int(self.asked(_FAULTS, busy)):
            if process.poll() is not None:
                raise RuntimeError("the run ended before it was hurt")
            time.sleep(0.1)
        return process

    def concurrent_run(self) -> Process:
        """Start a run of a few windows on the second host."""
        return self.catch_up(self.second, _FAULTS, "--max-windows", str(_BESIDE))

    def violations(self, kind: str, given: str) -> list[str]:
        check = Path(__file__).with_name("check.py")
        printed = self.second.run("python", check, kind, DISK / kind, given, **SECRETS)
        found: list[str] = json.loads(printed.splitlines()[-1])
        return found

    def keep_logs(self, folder: Path) -> None:
        for host in (self.storage, self.spark, self.first, self.second):
            (folder / host.name).mkdir(parents=True, exist_ok=True)
            for log in host.disk.glob("*.log"):
                shutil.copy(log, folder / host.name)


def catch_up(world: World) -> Told:
    """The demo's catch-up. A bad day holds its successors; its file is repaired."""
    assert world.catch_up(world.first, _FLIGHTS).wait(2 * PATIENCE) == 1
    failed = world.asked(_FLIGHTS, "SELECT job_schedule_id FROM job_log WHERE status = 'FAILURE'")
    world.repair()
    assert world.catch_up(world.first, _FLIGHTS).wait(2 * PATIENCE) == 0
    return f"`{failed}` failed, then all ran", world.violations(_FLIGHTS, _source(world))


def backfill(world: World) -> Told:
    """A backfill from Dagster's pages, by the daemon. Three days of flights run again."""
    before = world.done(_FLIGHTS)
    ended = world.dagster.backfill("ods.flights", ["2013-01-11", "2013-01-12", "2013-01-13"])
    told = f"{ended}, {world.done(_FLIGHTS) - before} windows"
    wrong = [] if ended == "COMPLETED_SUCCESS" else [f"the backfill: {ended}"]
    return told, wrong


def job_execute(world: World) -> Told:
    """`dagster job execute`. Three days more, a week, and what the backfill has made stale."""
    world.end_at("2013-01-21")
    before = world.done(_FLIGHTS)
    world.dagster.execute("catch_up")
    told = f"{world.done(_FLIGHTS) - before} windows"
    return told, world.violations(_FLIGHTS, _source(world))


def cut_off(world: World) -> Told:
    """Each host's cable is cut in its turn. It stays so for longer than a lease."""
    told = []
    for host in (world.first, world.spark, world.storage):
        running = world.hurt()
        world.storage.switch.cut(host.name)
        concurrent_run = world.concurrent_run() if host is world.first else None
        time.sleep(_CUT_SECONDS)
        world.storage.switch.mend(host.name)
        told.append(f"{host.name}: its run ended with {running.wait(2 * PATIENCE)}")
        if concurrent_run:
            told[-1] += f", that of {world.second.name} with {concurrent_run.wait(2 * PATIENCE)}"
    return "; ".join(told), []


def killed(world: World) -> Told:
    """Each host is killed in the midst of a window. All of its processes end at once."""
    told = []
    revive: list[tuple[Host, Callable[[], None]]] = [
        (world.first, lambda: None),
        (world.spark, lambda: services.start_spark(world.spark, world.storage)),
        (world.storage, lambda: services.start_storage(world.storage)),
    ]
    for host, start in revive:
        running = world.hurt()
        host.power_off()
        if host is world.first:
            ended = world.concurrent_run().wait(2 * PATIENCE)
            told.append(f"{world.second.name} went on without it, and ended with {ended}")
        host.boot()
        start()
        told.append(f"{host.name}: its run ended with {running.wait(2 * PATIENCE)}")
    world.settle(world.second, _FAULTS)
    return "; ".join(told), world.violations(_FAULTS, str(_DAYS))


def _source(world: World) -> str:
    """The flights as their source has them, on the disk of the host that compares."""
    data = world.storage.disk / services.BUCKET / f"{_FLIGHTS}-data"
    shutil.copy(data / "flights.csv", world.second.disk / "flights.csv")
    return str(DISK / "flights.csv")


ACTS: tuple[Callable[[World], Told], ...] = (catch_up, backfill, job_execute, cut_off, killed)
