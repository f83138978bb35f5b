"""Runs a scenario in processes of its own, hurts them, and checks data and log in the end."""

import math
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any, TypeAlias

from sqlalchemy import select

from logdriven_dagster.execution.definitions.registering import register
from logdriven_dagster.execution.opening import open_runner
from logdriven_dagster.runlog.schema.attempts import job_log
from tests.faults.invariants import violations
from tests.faults.network import wire_to
from tests.faults.peers import URL_VARIABLE, Peer
from tests.faults.projects import NOW, Scenario
from tests.faults.report import Report
from tests.faults.victim import POINTS
from tests.patience import PATIENCE

ROOT = Path(__file__).resolve().parents[2]
OFTEN = 1 / 3
"""The share of windows that are hurt, if nobody says otherwise."""
TICK = 0.25
"""Seconds between two looks at the plan."""
_AT_A_MOMENT, _OF_A_SERVER = 0.2, 0.3
"""The shares of faults that come at a random time, or hurt the server, not at a named point."""
_OF_A_CHANGE = 0.2
"""The share of faults before which a query changes."""
_AT_THE_START = 0.2
"""The share of them that may come before a runner has begun a window; a start takes long."""
_CATALOG, _TARGET = "in a transaction of the catalog", "before a commit"
_TRANSACTIONS = ["in a transaction of the log", _CATALOG, _TARGET]
_FROZEN = ["claimed", "staged", "persisted", "before publishing", "between verify and switch"]
_FROZEN += _TRANSACTIONS
"""Points at which a runner is frozen: before its successor is there, and inside transactions."""
_OF_SERVERS = ["server killed", "sessions ended", "network cut"]
_OF_CLOCKS = {"clock set forward": timedelta(hours=1), "clock set back": -timedelta(minutes=20)}
Process: TypeAlias = "subprocess.Popen[str]"
Fault: TypeAlias = tuple[str, str, int]
"""What happens, at which point, and at which of its calls."""
NONE: Fault = ("", "", 1)


class Driver:
    """One scenario, from its first run until nothing is left to do."""

    frozen_seconds = 20.0
    """Longer than servers let a transaction stand still, and shorter than others wait for SQLite's.

    It becomes twice as long where nobody could take over what the frozen one holds.
    """
    brief_seconds = 8.0
    """Longer than a lease and a start of Spark: for what holds no transaction, once taken over."""

    def __init__(
        self, scenario: Scenario, seed: int, peer: Peer | None = None, rate: float = OFTEN
    ) -> None:
        """`rate` is the share of windows in which a runner is hurt."""
        self.scenario, self.random, self._peer = scenario, random.Random(seed), peer
        self._rate = rate
        self.report = Report()
        self._open_runner()
        self._hosts = 0
        self._started: list[Process] = []

    def end(self) -> None:
        """End what it started, frozen or not."""
        for process in self._started:
            end_group(process.pid)
            process.wait()

    def _open_runner(self) -> None:
        registered = register(self.scenario.folder)
        self._runner = open_runner(registered.project, run_log=registered.run_log)

    def change_query(self) -> None:
        """Change a query of the lake, and restate its windows and those of the tables behind it."""
        self.scenario = self.scenario.change_query()
        self._open_runner()

    @property
    def pending(self) -> int:
        """How many windows are left to run."""
        return sum(table.pending for table in self._runner.plan(NOW).tables.values())

    def hurt_at_random(self) -> None:
        """One fault of any kind, at a named point or at some instant; kills most of all.

        Once in a lake, somebody changes a query before it.
        """
        may_change = self.scenario.name == "lake" and not self.scenario.is_changed
        if may_change and self.random.random() < _OF_A_CHANGE:
            self.report.faults["query changed, windows restated"] += 1
            self.change_query()
        draw = self.random.random()
        if draw < _AT_A_MOMENT:
            self.kill_after(self._some_seconds())
        elif self._peer is not None and draw < _AT_A_MOMENT + _OF_A_SERVER:
            faults = [*_OF_SERVERS, *(_OF_CLOCKS if self._peer.has_own_clock else ())]
            self.hurt_server(self.random.choice(faults), self._some_seconds(), self._random_kill())
        else:
            self.hurt(*self._random_fault(), self._random_kill())

    def _some_seconds(self) -> float:
        """To some instant; a window takes about a second."""
        return self.random.uniform(0, 7 + 1 / self._rate)

    def _await_claim(self, process: Process) -> None:
        """Mostly wait until a runner has begun a window, or has ended."""
        if self.random.random() > _AT_THE_START:
            while process.poll() is None and not self._running():
                time.sleep(TICK)

    def _random_fault(self) -> Fault:
        """A fault, a point, and at which of its calls it happens."""
        frozen = 1 if self._peer is None else 3
        fault = self.random.choices(["kill", "jvm", "full disk", "freeze"], [8, 1, 1, frozen])[0]
        return self._random_point(fault, _FROZEN if fault == "freeze" else POINTS)

    def _random_kill(self) -> Fault:
        return self._random_point("kill", POINTS)

    def _random_point(self, fault: str, points: Iterable[str]) -> Fault:
        never = {"in the heartbeat", _CATALOG if self.scenario.name == "database" else _TARGET}
        if not self.scenario.has_sql_catalog:
            never.add(_CATALOG)
        tables = self._runner.plan(NOW).tables.values()
        if not any(table.log.open for table in tables):
            never.add("fenced")  # there is nothing to fence
        point = self.random.choice([point for point in points if point not in never])
        # How many times it goes well, if it goes wrong at this rate.
        well = math.log(1 - self.random.random()) / math.log(1 - self._rate)
        return fault, point, 1 if point == "fenced" else 1 + int(well)

    def start(self, fault: str = "", point: str = "", call: int = 1, *, url: str = "") -> Process:
        """A runner; each one is on a machine of its own, so that only leases tell of its death.

        `url` is its way to the server, if not everybody's.
        """
        self._hosts += 1
        self.report.runs += 1
        command = [sys.executable, "-m", "tests.faults.victim", str(self.scenario.folder)]
        process = subprocess.Popen(
            [*command, fault, point, str(call), f"host-{self._hosts}"],
            cwd=ROOT,
            env=os.environ | ({URL_VARIABLE: url} if url else {}),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        self._started.append(process)
        return process

    def hurt(self, fault: str, point: str, call: int, concurrent: Fault = NONE) -> None:
        """One run that is hurt, if it gets so far, and the wait until its window is free.

        While one is frozen another host works, until it is hurt itself.
        """
        victim = self.start(fault, point, call)
        if fault == "freeze":
            self._freeze(victim, point, concurrent)
        else:
            self._see_out(victim, fault, point, concurrent)

    def hurt_server(self, fault: str, seconds: float, concurrent: Fault = NONE) -> None:
        """A run whose server is hurt at some instant; a cut lasts longer than a lease.

        While it is cut off, or its clock is wrong, another host works, until it is hurt itself.
        """
        assert self._peer is not None
        with wire_to(int(self._peer.url.port or 0)) as wire:
            running, others = self.start(url=self._peer.through(wire.port)), []
            self._await_claim(running)
            time.sleep(seconds)
            self.report.faults[f"{fault}, at a random time"] += running.poll() is None
            held = self._running()
            if fault == "server killed":
                self._peer.kill()
            elif fault == "sessions ended":
                self._peer.end_sessions()
            elif fault in _OF_CLOCKS:
                self._peer.set_clock(_OF_CLOCKS[fault])
                self.report.set_back += max(-_OF_CLOCKS[fault], timedelta(0))
                others = [self._start_concurrent_work(held, concurrent, self.brief_seconds)]
            else:
                wire.cut()
                others = [self._start_concurrent_work(held, concurrent, self.brief_seconds)]
                wire.mend()
            out = self._survive(running, concurrent)
        for other in others:
            self._see_out(other, *concurrent[:2], concurrent)
        self._await_takeover()
        if running.returncode not in (0, 2, -signal.SIGKILL):
            self._violation(f"after {fault} a runner ended with {running.returncode}", out)

    def kill_after(self, seconds: float) -> None:
        """One run that is killed at some instant, with its JVM."""
        victim = self.start()
        self._await_claim(victim)
        self._read(victim, seconds)
        self._await_takeover()

    def run(self) -> None:
        """One run that nobody hurts; it must end well."""
        self.hurt(*NONE)

    def finish(self) -> None:
        """Run until nothing is left, then check everything."""
        left = math.inf
        while (pending := self.pending) and pending < left:
            left = pending
            self.run()
        checked = violations(self.scenario, self._runner.run_log, self.report.set_back)
        self.report.violations += checked.found
        self.report.windows += checked.windows
        self.report.attempts += checked.attempts
        self.report.resumed_steps += checked.resumed_steps

    def _freeze(self, zombie: Process, point: str, concurrent: Fault) -> None:
        """While it stands still another one works; awake again, it must lose what that one has."""
        _, status = os.waitpid(zombie.pid, os.WUNTRACED)
        if not os.WIFSTOPPED(status):  # it had too little to do to get so far
            zombie.returncode = os.waitstatus_to_exitcode(status)
            zombie.communicate()
            return
        self.report.faults[f"freeze, {point}"] += 1
        held = self._running()
        least = self.frozen_seconds if point in _TRANSACTIONS else self.brief_seconds
        other = self._start_concurrent_work(held, concurrent, least)
        taken = self._ended(held)
        os.kill(zombie.pid, signal.SIGCONT)
        out = self._survive(zombie, concurrent)
        self._see_out(other, *concurrent[:2], concurrent)
        refused = {job_id for job_id in taken if f"lost {job_id}\n" in out}
        self.report.zombies += len(taken)
        self.report.zombies_refused += len(refused)
        if refused != taken and zombie.returncode != -signal.SIGKILL:
            self._violation(f"zombie {taken - refused}, frozen {point}, was not refused", out)

    def _start_concurrent_work(
        self, held: Sequence[int], concurrent: Fault, least: float
    ) -> Process:
        """Another host, when it has taken over what is held; at the latest after some time.

        One that is there before the lease has ended finds nothing to do, and comes again.
        """
        other, began = self.start(*concurrent), time.monotonic()
        while (seconds := time.monotonic() - began) <= self.frozen_seconds * 2:
            taken, ended = set(held) == self._ended(held), other.poll() is not None
            if taken and (ended or seconds > least):
                break
            if ended and other.returncode not in (0, -signal.SIGKILL):
                break  # `_see_out` tells of it
            if ended:
                other = self.start(*concurrent)
            time.sleep(TICK)
        return other

    def _survive(self, process: Process, concurrent: Fault) -> str:
        """What one says that goes on after a fault; where others die it is killed later."""
        seconds = self.brief_seconds + self._some_seconds() + 1 / self._rate
        return self._read(process, None if concurrent == NONE else seconds)

    def _see_out(self, victim: Process, fault: str, point: str, concurrent: Fault) -> None:
        """Wait for the end of a run that may be hurt at a point, or of what survives that."""
        out = self._survive(victim, concurrent)
        self._await_takeover()
        end_group(victim.pid)
        if "hurt\n" in out:
            self.report.faults[f"{fault}, {point}"] += 1
        if fault in ("", "kill") and victim.returncode not in (0, -signal.SIGKILL):
            self._violation(f"{fault or 'not hurt'} {point}: exit {victim.returncode}", out)

    def _read(self, process: Process, seconds: float | None = None) -> str:
        """What a process says until it ends; after so many seconds it is killed."""
        try:
            return process.communicate(timeout=seconds or PATIENCE + 5 * self.pending)[0]
        except subprocess.TimeoutExpired:
            if seconds is None:
                raise
            self.report.faults["kill, at a random time"] += 1
            end_group(process.pid)
            return process.communicate()[0]

    def _ended(self, jobs: Sequence[int]) -> set[int]:
        """Those of some attempts that are not RUNNING any more."""
        query = select(job_log.c.job_id).where(
            job_log.c.job_id.in_(jobs), job_log.c.status != "RUNNING"
        )
        return self._runner.run_log.ask(lambda conn: set(conn.execute(query).scalars()))

    def _await_takeover(self) -> None:
        """How long it takes until nothing is held by a runner that is gone."""
        began = time.monotonic()
        while self._running():
            if time.monotonic() - began > PATIENCE:
                self._violation("a window stayed RUNNING", "")
                return
            time.sleep(TICK)
        self.report.slowest_takeover = max(self.report.slowest_takeover, time.monotonic() - began)

    def _running(self) -> list[int]:
        """The attempts whose leases hold."""
        tables = self._runner.plan(NOW).tables.values()
        opened: list[Any] = [item for table in tables for item in table.log.open]
        return [item.job_id for item in opened if item.status.value == "RUNNING"]

    def _violation(self, what: str, out: str) -> None:
        self.report.violations.append(f"{what}: {out[-1500:]}" if out else what)


@contextmanager
def driving(
    scenario: Scenario, seed: int, peer: Peer | None = None, rate: float = OFTEN
) -> Iterator[Driver]:
    """A driver whose processes end with the block, however it ends."""
    driver = Driver(scenario, seed, peer, rate)
    try:
        yield driver
    finally:
        driver.end()


def end_group(leader: int) -> None:
    """End a runner with what it has started; its JVM ends by itself when nobody writes to it."""
    try:
        os.killpg(leader, signal.SIGKILL)
    except ProcessLookupError:
        return
