"""Rounds: every contestant in turn, in an order of chance, each from an empty state folder.

Where only later stages are asked for, the earlier ones run once, and each round begins with a copy
of the state that they left.
"""

import random
import shutil
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field
from functools import partial
from itertools import takewhile
from pathlib import Path

from sqlalchemy import create_engine, text

from benchmarks import data, layouts, machine
from benchmarks.checking import WrongRowsError, verify
from benchmarks.contestants import CONTESTANTS
from benchmarks.process import ProcessFailedError, run
from benchmarks.results import Scenario, Times
from benchmarks.scenarios import TITLES, Course, Stage
from benchmarks.settings import WORK, Scale
from benchmarks.tasks import Task, UnavailableError

SEED = 6
Work = Callable[[str, Stage, Task], None]
_KEPT = WORK / "kept"
"""States that stages begin with which are asked for without those before them."""


@dataclass
class Race:
    """A course with its contestants, until the last round."""

    course: Course
    scale: Scale
    names: Collection[str]
    """Who may take part."""
    stages: tuple[Stage, ...]
    asked: Collection[str]
    """Scenarios: the stages before the first of them only make the state that it begins with."""
    database: str | None
    say: Callable[[str], None]
    scenarios: dict[str, Scenario] = field(default_factory=dict)
    out: dict[str, str] = field(default_factory=dict)
    """Contestant → why it does not go on."""

    def run(self, rounds: int) -> dict[str, Scenario]:
        """All rounds; the results of each scenario."""
        shape = self.course.shape(self.scale)
        source = layouts.make(shape, WORK / "data")
        described = machine.describe()
        making = list(takewhile(lambda stage: stage.scenario not in self.asked, self.stages))
        timed = self.stages[len(making) :]
        for stage in timed:
            title = TITLES[stage.scenario].format(days=shape.days, rows=shape.rows)
            taking_part = {name: _times(name) for name in self._of(stage)}
            self.scenarios[stage.scenario] = Scenario(title, described, taking_part)
        everybody = list({name: None for stage in timed for name in self._of(stage)})
        each = partial(self._each, source=source, shape=shape)
        order = random.Random(SEED)
        for number in range(1, rounds + 1):
            self.say(f"round {number} of {', '.join(stage.scenario for stage in timed)}")
            if making and number > 1:
                each(making[-1], everybody, self._restore)
            else:
                each(self.stages[0], everybody, self._prepare)
                for stage in making:
                    each(stage, [n for n in self._of(stage) if n in everybody], self._timed)
                if making:
                    each(making[-1], everybody, self._keep)
            for stage in timed:
                each(stage, order.sample(self._of(stage), len(self._of(stage))), self._timed)
        return self.scenarios

    def _of(self, stage: Stage) -> list[str]:
        return [name for name in stage.contestants if name in self.names]

    def _each(
        self, stage: Stage, names: Iterable[str], work: Work, source: Path, shape: data.Shape
    ) -> None:
        for name in names:
            self._try(name, stage, work, self._task(name, stage, source, shape))

    def _task(self, name: str, stage: Stage, source: Path, shape: data.Shape) -> Task:
        return Task(
            self.course.transform,
            source,
            WORK / "state" / name,
            stage.begin(shape),
            stage.end(shape),
            self.course.target,
            shape.by_day,
            self.database,
        )

    def _try(self, name: str, stage: Stage, work: Work, task: Task) -> None:
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
            found = self.scenarios.get(later.scenario)
            if found is not None and name in found.contestants:
                found.contestants[name] = _times(name, skipped=skipped, failed=failed)

    def _prepare(self, name: str, _stage: Stage, task: Task) -> None:
        shutil.rmtree(task.state, ignore_errors=True)
        task.state.mkdir(parents=True)
        if task.database is not None:
            _empty(task.database)
        CONTESTANTS[name].prepare(task)

    def _keep(self, name: str, _stage: Stage, task: Task) -> None:
        shutil.rmtree(_KEPT / name, ignore_errors=True)
        shutil.copytree(task.state, _KEPT / name, symlinks=True)

    def _restore(self, name: str, _stage: Stage, task: Task) -> None:
        shutil.rmtree(task.state)
        shutil.copytree(_KEPT / name, task.state, symlinks=True)

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
        if scenario := self.scenarios.get(stage.scenario):
            scenario.contestants[name].add(measured, rows, contestant.windows(task))


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
