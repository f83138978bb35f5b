"""Rounds: every contestant in turn, in an order of chance, each from an empty state folder."""

import random
import shutil
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from pathlib import Path

from sqlalchemy import create_engine, text

from benchmarks import data, machine
from benchmarks.checking import WrongRowsError, verify
from benchmarks.contestants import CONTESTANTS
from benchmarks.process import ProcessFailedError, run
from benchmarks.results import Scenario, Times
from benchmarks.scenarios import TITLES, Course, Stage
from benchmarks.settings import WORK, Scale
from benchmarks.tasks import Task, UnavailableError

SEED = 6


@dataclass
class Race:
    """A course with its contestants, until the last round."""

    course: Course
    scale: Scale
    names: Collection[str]
    """Who may take part."""
    stages: tuple[Stage, ...]
    database: str | None
    say: Callable[[str], None]
    scenarios: dict[str, Scenario] = field(default_factory=dict)
    out: dict[str, str] = field(default_factory=dict)
    """Contestant → why it does not go on."""

    def run(self, rounds: int) -> dict[str, Scenario]:
        """All rounds; the results of each scenario."""
        shape = self.course.shape(self.scale)
        source = data.make(shape, WORK / "data")
        described = machine.describe()
        for stage in self.stages:
            title = TITLES[stage.scenario].format(days=shape.days, rows=shape.rows)
            taking_part = {name: _times(name) for name in self._of(stage)}
            self.scenarios[stage.scenario] = Scenario(title, described, taking_part)
        order = random.Random(SEED)
        for number in range(1, rounds + 1):
            self.say(f"round {number} of {', '.join(stage.scenario for stage in self.stages)}")
            self._round(source, shape, order)
        return self.scenarios

    def _of(self, stage: Stage) -> list[str]:
        return [name for name in stage.contestants if name in self.names]

    def _round(self, source: Path, shape: data.Shape, order: random.Random) -> None:
        first = self.stages[0]
        for name in {name: None for stage in self.stages for name in self._of(stage)}:
            self._try(name, first, self._prepare, self._task(name, first, source, shape))
        for stage in self.stages:
            for name in order.sample(self._of(stage), len(self._of(stage))):
                self._try(name, stage, self._timed, self._task(name, stage, source, shape))

    def _task(self, name: str, stage: Stage, source: Path, shape: data.Shape) -> Task:
        return Task(
            self.course.transform,
            source,
            WORK / "state" / name,
            stage.begin(shape),
            stage.end(shape),
            self.course.target,
            self.database,
        )

    def _try(
        self, name: str, stage: Stage, work: Callable[[str, Stage, Task], None], task: Task
    ) -> None:
        """Do something, unless the contestant is out; whatever goes wrong puts it out."""
        if name in self.out:
            return
        try:
            work(name, stage, task)
        except UnavailableError as reason:
            self._put_out(name, stage, skipped=str(reason))
        except (ProcessFailedError, WrongRowsError) as reason:
            self._put_out(name, stage, failed=str(reason))

    def _put_out(self, name: str, stage: Stage, *, skipped: str = "", failed: str = "") -> None:
        """Its times of this stage and of those that follow are worth nothing."""
        self.out[name] = skipped or failed
        self.say(f"{stage.scenario}, {name} is out: {skipped or failed}")
        for later in self.stages[self.stages.index(stage) :]:
            times = self.scenarios[later.scenario].contestants
            if name in times:
                times[name] = _times(name, skipped=skipped, failed=failed)

    def _prepare(self, name: str, _stage: Stage, task: Task) -> None:
        shutil.rmtree(task.state, ignore_errors=True)
        task.state.mkdir(parents=True)
        if task.database is not None:
            _empty(task.database)
        CONTESTANTS[name].prepare(task)

    def _timed(self, name: str, stage: Stage, task: Task) -> None:
        contestant = CONTESTANTS[name]
        try:
            contestant.before(task)
            log = task.state / f"{stage.scenario.replace(' ', '-')}.log"
            measured = run(contestant.command(task), log, self.scale.timeout_seconds)
        finally:
            contestant.after(task)
        rows = verify(task, contestant.written(task))
        self.say(
            f"{stage.scenario}, {name}: {measured.seconds:.1f} s, {measured.cpu_seconds:.1f} s of "
            f"CPU, {rows:,} rows"
        )
        times = self.scenarios[stage.scenario].contestants[name]
        times.add(measured, rows, contestant.windows(task))


def _times(name: str, *, skipped: str = "", failed: str = "") -> Times:
    contestant = CONTESTANTS[name]
    return Times(contestant.label, skipped=skipped, failed=failed, note=contestant.note)


def _empty(database: str) -> None:
    """Every contestant finds the database as it was made."""
    engine = create_engine(database)
    with engine.begin() as conn:
        conn.execute(text("DROP SCHEMA public CASCADE"))
        conn.execute(text("CREATE SCHEMA public"))
    engine.dispose()
