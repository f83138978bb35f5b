"""Runs a scenario in processes of its own, hurts them, and checks data and log in the end."""

import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from logdriven_dagster.execution.local import open_runner
from tests.faults.invariants import violations
from tests.faults.network import wire_to
from tests.faults.peers import URL_VARIABLE, Peer
from tests.faults.projects import NOW, Scenario
from tests.faults.victim import POINTS
from tests.patience import PATIENCE

ROOT = Path(__file__).resolve().parents[2]
TICK = 0.25
"""Seconds between two looks at the plan."""
_AT_A_MOMENT, _OF_A_SERVER = 0.3, 0.15
"""The shares of faults that come at a random moment, or hurt the server, not at a named point."""
_SWITCH = "between verify and switch"
_FROZEN = ["claimed", "staged", "persisted", "before publishing", _SWITCH]
"""Points at which a frozen runner holds no lock of a SQLite run log."""
_TRANSACTIONS = ["in a transaction of the log", "in a transaction of the catalog"]
"""Points at which it holds locks that only a server can end."""
_OF_SERVERS = ["server killed", "sessions ended", "network cut"]


@dataclass
class Report:
    """What was done and what came of it."""

    faults: Counter[str] = field(default_factory=Counter)
    runs: int = 0
    windows: int = 0
    attempts: int = 0
    resumed_steps: int = 0
    zombies: int = 0
    zombies_refused: int = 0
    slowest_takeover: float = 0
    """Seconds from a death until its window was ready again, by looks every `TICK`."""
    violations: list[str] = field(default_factory=list)

    def add(self, other: "Report") -> None:
        """Sum up."""
        self.faults += other.faults
        for name in ("runs", "windows", "attempts", "resumed_steps", "zombies", "zombies_refused"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.slowest_takeover = max(self.slowest_takeover, other.slowest_takeover)
        self.violations += other.violations


class Driver:
    """One scenario, from its first run until nothing is left to do."""

    def __init__(self, scenario: Scenario, seed: int, peer: Peer | None = None) -> None:
        self.scenario, self.random, self._peer = scenario, random.Random(seed), peer
        self.report = Report()
        self._runner = open_runner(scenario.project)
        self._hosts = 0
        self._started: list[subprocess.Popen[str]] = []

    def end(self) -> None:
        """End what it started, frozen or not."""
        for process in self._started:
            _end_group(process.pid)
            process.wait()

    @property
    def pending(self) -> int:
        """How many windows are left to run."""
        return sum(table.pending for table in self._runner.plan(NOW).tables.values())

    def hurt_at_random(self) -> None:
        """One fault of any kind, at a named point or at some moment; kills most of all."""
        draw = self.random.random()
        if draw < _AT_A_MOMENT:
            self.kill_after(self.random.uniform(2.0, 9.0))
        elif self._peer is not None and draw < _AT_A_MOMENT + _OF_A_SERVER:
            self.hurt_server(self.random.choice(_OF_SERVERS), self.random.uniform(2.0, 12.0))
        else:
            self.hurt(*self._random_fault())

    def _random_fault(self) -> tuple[str, str, int]:
        """A fault, a point, and at which of its calls it happens."""
        frozen = 1 if self._peer is None else 3
        fault = self.random.choices(["kill", "jvm", "full disk", "freeze"], [8, 1, 1, frozen])[0]
        points = [point for point in POINTS if point != "in the heartbeat"]
        if fault == "freeze":
            points = _FROZEN if self._peer is None else [*_FROZEN, *_TRANSACTIONS]
        if self.scenario.name == "database":
            points = [point for point in points if point != _TRANSACTIONS[1]]
        if fault == "freeze" and self.scenario.name == "database" and self._peer is None:
            points = [point for point in points if point != _SWITCH]  # it holds SQLite's lock
        tables = self._runner.plan(NOW).tables.values()
        if not any(table.log.open for table in tables):
            points = [point for point in points if point != "fenced"]  # there is nothing to fence
        point = self.random.choice(points)
        return fault, point, 1 if point == "fenced" else self.random.randint(1, 5)

    def start(
        self, fault: str = "", point: str = "", call: int = 1, url: str = ""
    ) -> "subprocess.Popen[str]":
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

    def hurt(self, fault: str, point: str, call: int) -> None:
        """One run that is hurt, if it gets so far, and the wait until its window is free."""
        victim = self.start(fault, point, call)
        if fault == "freeze":
            self._freeze(victim, point)
            return
        out, _ = victim.communicate(timeout=PATIENCE)
        self._await_takeover()
        _end_group(victim.pid)
        reached = victim.returncode != 0 or "failed" in out
        self.report.faults[f"{fault}, {point}"] += reached
        if fault == "kill" and victim.returncode not in (0, -signal.SIGKILL):
            self._violation(f"killed at {point}, it ended with {victim.returncode}", out)

    def hurt_server(self, fault: str, seconds: float) -> None:
        """A run whose server is hurt after some seconds; a cut lasts longer than a lease."""
        assert self._peer is not None
        with wire_to(int(self._peer.url.port or 0)) as wire:
            running = self.start(url=self._peer.through(wire.port))
            time.sleep(seconds)
            self.report.faults[f"{fault}, at a random moment"] += running.poll() is None
            if fault == "server killed":
                self._peer.kill()
            elif fault == "sessions ended":
                self._peer.end_sessions()
            else:
                wire.cut()
                self.run()  # another host, which reaches the server
                wire.mend()
            out, _ = running.communicate(timeout=PATIENCE)
        self._await_takeover()
        if running.returncode not in (0, 2):
            self._violation(f"after {fault} a runner ended with {running.returncode}", out)

    def kill_after(self, seconds: float) -> None:
        """One run that is killed at some moment, with its JVM."""
        victim = self.start()
        try:
            victim.communicate(timeout=seconds)
        except subprocess.TimeoutExpired:
            self.report.faults["kill, at a random moment"] += 1
            _end_group(victim.pid)
            victim.communicate()
        self._await_takeover()

    def run(self) -> None:
        """One run that nobody hurts; it must end well."""
        done = self.start()
        out, _ = done.communicate(timeout=PATIENCE)
        if done.returncode:
            self._violation(f"an undisturbed run ended with {done.returncode}", out)
        self._await_takeover()

    def finish(self) -> None:
        """Run until nothing is left, then check everything."""
        while self.pending and not self.report.violations:
            self.run()
        checked = violations(self.scenario, self._runner.run_log)
        self.report.violations += checked.found
        self.report.windows += checked.windows
        self.report.attempts += checked.attempts
        self.report.resumed_steps += checked.resumed_steps

    def _freeze(self, zombie: "subprocess.Popen[str]", point: str) -> None:
        """While it stands still others do its work; awake again, it must change nothing."""
        _, status = os.waitpid(zombie.pid, os.WUNTRACED)
        if not os.WIFSTOPPED(status):  # it had too little to do to get so far
            zombie.returncode = os.waitstatus_to_exitcode(status)
            zombie.communicate()
            return
        self.report.faults[f"freeze, {point}"] += 1
        held = self._running()
        self._await_takeover()
        while self.pending and not self.report.violations:
            self.run()  # what is left, the zombie may rightly do
        before = self.scenario.actual()
        os.kill(zombie.pid, signal.SIGCONT)
        out, _ = zombie.communicate(timeout=PATIENCE)
        self._await_takeover()
        self.report.zombies += len(held)
        for job_id in held:
            if f"lost {job_id}\n" in out:
                self.report.zombies_refused += 1
            else:
                self._violation(f"zombie {job_id}, frozen at {point}, was not refused", out)
        if self.scenario.actual() != before:
            self._violation(f"a zombie that was frozen at {point} changed the data", out)

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
def driving(scenario: Scenario, seed: int, peer: Peer | None = None) -> Iterator[Driver]:
    """A driver whose processes end with the block, however it ends."""
    driver = Driver(scenario, seed, peer)
    try:
        yield driver
    finally:
        driver.end()


def _end_group(leader: int) -> None:
    """What a dead runner leaves behind, such as its JVM."""
    try:
        os.killpg(leader, signal.SIGKILL)
    except ProcessLookupError:
        return
