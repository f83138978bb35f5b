"""Runners, operators and time against one run log, step by step beside an oracle of a page.

`python -m tests.runlog.attempts.model_based STEPS [URL]` takes as many steps, on SQLite in memory's
file system by default; `URL` is an empty database of a server.
"""

import shutil
import sys
import tempfile
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test
from sqlalchemy import delete, select, update

from logdriven_dagster.errors import AlreadyDoneError, AlreadyRunningError, AttemptLostError
from logdriven_dagster.model.attempts import (
    Attempt,
    AttemptOutcome,
    OnRunning,
    Owner,
    Status,
    Trigger,
)
from logdriven_dagster.runlog import archive
from logdriven_dagster.runlog.attempts import claiming, leases
from logdriven_dagster.runlog.attempts.leases import ATTEMPTS
from logdriven_dagster.runlog.attempts.rows import schedule_id
from logdriven_dagster.runlog.history import logs as history
from logdriven_dagster.runlog.schema.attempts import job_log, metadata
from tests.builders import claim_one, day, finish, table
from tests.runlog.logbook import open_log, request

WINDOWS = range(1, 6)
RUNNERS = [Owner(f"host-{n}", n, n) for n in range(3)]
TABLE = table(lookback=1, ordered=False)
windows, runners = st.sampled_from(WINDOWS), st.sampled_from(RUNNERS)
held = st.integers(0, 10)


@dataclass
class Oracle:
    """What a window is, told without a database."""

    status: Status | None = None
    expired: bool = False
    archived: bool = False
    holder: Attempt | None = None
    token: int = 0

    def refusal(self, trigger: Trigger, on_running: OnRunning) -> type[Exception] | None:
        """What a claim raises."""
        if (
            self.status is Status.RUNNING
            and not self.expired
            and on_running is not OnRunning.REPLACE
        ):
            return AlreadyRunningError
        done = self.status is Status.SUCCESS and not self.archived
        return AlreadyDoneError if done and trigger is Trigger.PENDING else None

    def ends(self, status: Status) -> None:
        """However it came about."""
        self.status, self.expired, self.holder = status, False, None


@dataclass
class Held:
    """An attempt that some runner believes to be its own."""

    attempt: Attempt
    n: int


class RunLogMachine(RuleBasedStateMachine):
    """All that runners, operators and the clock can do."""

    url: str = ""
    steps = 0

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp(dir="/dev/shm"))
        self.log = open_log(self.url or f"sqlite:///{self.folder}/log.db")
        with self.log.begin() as conn:
            for each in reversed(metadata.sorted_tables):
                conn.execute(delete(each))
        self.model = {n: Oracle() for n in WINDOWS}
        self.held: list[Held] = []

    def teardown(self) -> None:
        self.log.engine.dispose()
        shutil.rmtree(self.folder)

    @rule(
        n=windows,
        by=runners,
        trigger=st.sampled_from([Trigger.PENDING, Trigger.REFRESH]),
        on_running=st.sampled_from([OnRunning.SKIP, OnRunning.REPLACE]),
    )
    def claim(self, n: int, by: Owner, trigger: Trigger, on_running: OnRunning) -> None:
        model = self.model[n]
        expected = model.refusal(trigger, on_running)
        wanted = request(day(n), trigger, owner=by, on_running=on_running)
        refused: Exception | None = None
        try:
            with self.log.begin() as conn:
                attempt = claim_one(conn, wanted)
        except (AlreadyRunningError, AlreadyDoneError) as error:
            refused = error
        if refused is not None:
            assert type(refused) is expected, (model, refused)
            return
        assert expected is None, (model, trigger)
        assert attempt.fencing_token > model.token
        model.ends(Status.RUNNING)
        model.holder, model.token, model.archived = attempt, attempt.fencing_token, False
        self.held.append(Held(attempt, n))

    @rule(which=held, end=st.sampled_from([None, Status.SUCCESS, Status.FAILURE, Status.DISCARDED]))
    def write(self, which: int, end: Status | None) -> None:
        """A runner renews its lease or ends its attempt, whether or not it still is its own."""
        if not self.held:
            return
        mine = self.held[which % len(self.held)]
        model = self.model[mine.n]
        try:
            with self.log.begin() as conn:
                if end is None:
                    ATTEMPTS.renew(conn, [mine.attempt])
                else:
                    finish(conn, mine.attempt, AttemptOutcome(end))
        except AttemptLostError:
            assert model.holder is not mine.attempt
            return
        assert model.holder is mine.attempt, "a zombie was let in"
        if end is None:
            model.expired = False
        else:
            model.ends(end)

    @rule(n=windows)
    def time_passes(self, n: int) -> None:
        """The lease of a window runs out."""
        with self.log.begin() as conn:
            over = conn.execute(
                update(job_log)
                .where(job_log.c.job_schedule_id == schedule_id(request(day(n))))
                .where(job_log.c.status == "RUNNING")
                .values(lease_expires_at=job_log.c.create_time)
            )
        self.model[n].expired = over.rowcount == 1

    @rule(n=windows, by=runners)
    def skip(self, n: int, by: Owner) -> None:
        model = self.model[n]
        with self.log.begin() as conn:
            claiming.skip(conn, [request(day(n), owner=by)])
        kept = model.status in (Status.SUCCESS, Status.SKIPPED) or (
            model.status is Status.RUNNING and not model.expired
        )
        if not kept:
            model.ends(Status.SKIPPED)
            model.token, model.archived = self._row(n).fencing_token or model.token, False

    @rule(n=windows, by=runners)
    def discard(self, n: int, by: Owner) -> None:
        model = self.model[n]
        row = self._row(n)
        with self.log.begin() as conn:
            ended = row is not None and leases.discard(conn, row.job_id, by)
        assert ended == (model.status is Status.RUNNING)
        if ended:
            model.ends(Status.DISCARDED)

    @rule(n=windows)
    def operator_sets_failure(self, n: int) -> None:
        """`UPDATE job_log SET status = 'FAILURE'` of the latest row."""
        row = self._row(n)
        if row is not None:
            with self.log.begin() as conn:
                mine = job_log.c.job_id == row.job_id
                conn.execute(update(job_log).where(mine).values(status="FAILURE"))
            self.model[n].ends(Status.FAILURE)

    @rule()
    def bury(self) -> None:
        with self.log.begin() as conn:
            ATTEMPTS.bury_expired(conn, "somebody")
        for model in self.model.values():
            if model.status is Status.RUNNING and model.expired:
                model.ends(Status.FAILURE)

    @rule()
    def archive(self) -> None:
        with self.log.begin() as conn:
            archive.archive(conn, [TABLE], timedelta(0))
        for n, model in self.model.items():
            model.archived = model.status is not None and self._row(n) is None
            assert not model.archived or model.status in (Status.SUCCESS, Status.SKIPPED)

    @invariant()
    def the_log_agrees_with_the_oracle(self) -> None:
        type(self).steps += 1
        with self.log.read() as conn:
            log = history.read_table_logs(conn, [TABLE])[TABLE.table]
        of = {n: model.status for n, model in self.model.items()}
        assert _days(log.finished) == {n for n, s in of.items() if s is Status.SUCCESS}
        assert _days(log.skipped) == {n for n, s in of.items() if s is Status.SKIPPED}
        opened = {item.window.start.day: (item.status, item.expired) for item in log.open}
        unfinished = (Status.RUNNING, Status.FAILURE, Status.DISCARDED)
        assert {n: s for n, (s, _) in opened.items()} == {
            n: s for n, s in of.items() if s in unfinished
        }
        for n, (status, expired) in opened.items():
            assert status is not Status.RUNNING or expired == self.model[n].expired

    @invariant()
    def one_row_of_a_window_is_the_latest_and_one_runs(self) -> None:
        with self.log.read() as conn:
            found = conn.execute(select(job_log)).all()
        latest = [row.window_start for row in found if row.latest == 1]
        running = [row.window_start for row in found if row.status == "RUNNING"]
        assert len(latest) == len(set(latest))
        assert len(running) == len(set(running))
        assert set(running) <= set(latest)

    def _row(self, n: int):
        mine = job_log.c.job_schedule_id == schedule_id(request(day(n)))
        with self.log.read() as conn:
            return conn.execute(select(job_log).where(mine, job_log.c.latest == 1)).first()


def _days(ranges) -> set[int]:
    return {n for n in WINDOWS if any(r.contains(day(n)) for r in ranges)}


def take_steps(examples: int, length: int) -> None:
    """Run the machine; a failure shows the shortest way to it."""
    bounds = settings(
        max_examples=examples,
        stateful_step_count=length,
        deadline=None,
        suppress_health_check=list(HealthCheck),
        database=None,
    )
    run_state_machine_as_test(RunLogMachine, settings=bounds)


if __name__ == "__main__":
    wanted = int(sys.argv[1])
    RunLogMachine.url = sys.argv[2] if len(sys.argv) > 2 else ""
    while RunLogMachine.steps < wanted:
        take_steps(max(wanted // 100, 1), 100)
    sys.stdout.write(f"{RunLogMachine.steps} steps without a violation\n")
