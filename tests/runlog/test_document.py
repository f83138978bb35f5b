"""The life cycle agrees with BDRE's document over random processes and sequences of calls.

`Document` is the document in plain Python: its validations, in its order, and its effects.
"""

from dataclasses import dataclass, field

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from logdriven_dagster.errors import AlreadyRunningError, LifeCycleError
from logdriven_dagster.model.batches import Enqueuer, SubProcess
from tests.random_examples import examples
from tests.runlog import bdre
from tests.runlog.bdre import ACCESSED, FAILED, NEW, PROCESSED

EOD, PLAIN = "EOD@2014-12-16", "2014-12-16"


@dataclass
class Step:
    """A sub-process: its upstream processes with their cut patterns, and `can_recover`."""

    name: str
    upstreams: dict[str, str | None]
    can_recover: bool


@dataclass
class Queued:
    """A row of BATCH_CONSUMP_QUEUE."""

    number: int
    step: str
    upstream: str
    marking: str
    state: int = NEW


@dataclass
class Document:
    """A parent process whose sub-processes follow each other."""

    steps: list[Step]
    running: bool = False
    runs: int = 0
    """Completed runs."""
    states: dict[str, str] = field(default_factory=dict)
    queue: list[Queued] = field(default_factory=list)
    taken: list[Queued] = field(default_factory=list)
    """The batches that have a target batch."""
    archived: list[int] = field(default_factory=list)

    def enqueue(self, number: int, step: str, upstream: str, marking: str) -> None:
        self.queue.append(Queued(number, step, upstream, marking))

    def init_job(self, most: int | None) -> int | None:
        if self.running:
            return 104
        patterns = [pattern for step in self.steps for pattern in step.upstreams.values()]
        if most is None and None in patterns:
            return 101
        if not self.taken:
            marked = [route for route in self._routes() if route[2] is not None]
            if not all(self._take_marked(*route) for route in marked):
                return 109
            if not all(self._find_waiting(s, u) for s, u, _ in self._routes()):
                return 112
            for step in self.steps:
                self.taken += self._take(step, most)
        self.running, self.states = True, {step.name: "NOT RUNNING" for step in self.steps}
        self._mark(ACCESSED)
        return None

    def init_step(self, step: str) -> int | None:
        if not self.running:
            return 108
        if self.states[step] == "RUNNING":
            return 106
        self.states[step] = "RUNNING"
        self._mark(ACCESSED, step)
        return None

    def halt_step(self, step: str) -> int | None:
        return self._end_step(step, "COMPLETED", PROCESSED)

    def term_step(self, step: str) -> int | None:
        return self._end_step(step, "FAILED", FAILED)

    def halt_job(self) -> int | None:
        if code := self._find_unfinished():
            return code
        if "FAILED" in self.states.values():
            return 111
        if any(self.states[each.step] == "NOT RUNNING" for each in self.taken):
            return 107  # ours: its batches were not processed
        self.archived += [each.number for each in self.taken]
        self.queue = [each for each in self.queue if each not in self.taken]
        self.running, self.taken, self.runs = False, [], self.runs + 1
        self.states = {}
        return None

    def term_job(self) -> int | None:
        if code := self._find_unfinished():
            return code
        self.running = False
        self._mark(FAILED)
        return None

    def find_restart(self) -> tuple[str, ...]:
        """Return the step at which the next run goes on: last_recoverable_sp_id."""
        restart: tuple[str, ...] = ()
        for step, following in zip(self.steps, [*self.steps[1:], None], strict=True):
            if self.states.get(step.name) != "COMPLETED":
                break
            if step.can_recover:
                restart = (following.name,) if following else ()
        return restart

    def describe_taken(self) -> dict[str, tuple[int, int]]:
        """Return the minimum and maximum batch of each sub-process."""
        numbers: dict[str, list[int]] = {}
        for each in self.taken:
            numbers.setdefault(each.step, []).append(each.number)
        return {step: (min(each), max(each)) for step, each in numbers.items()}

    def merge_markings(self) -> str:
        """Return the target batch marking: a collection of those of all batches."""
        return ",".join(sorted({each.marking for each in self.taken}))

    def _routes(self) -> list[tuple[str, str, str | None]]:
        return [(s.name, up, pattern) for s in self.steps for up, pattern in s.upstreams.items()]

    def _find_waiting(self, step: str, upstream: str) -> list[Queued]:
        return [q for q in self.queue if (q.step, q.upstream) == (step, upstream)]

    def _take_marked(self, step: str, upstream: str, pattern: str | None) -> list[Queued]:
        """Cut at the first batch that matches the pattern."""
        waiting = self._find_waiting(step, upstream)
        ends = [n for n, each in enumerate(waiting, 1) if each.marking == EOD or not pattern]
        return waiting[: ends[0]] if ends else []

    def _take(self, step: Step, most: int | None) -> list[Queued]:
        """Cut each upstream with a pattern; of the others together, max_batch per sub-process."""
        marked, oldest, others = [], [], []
        for upstream, pattern in step.upstreams.items():
            if pattern is not None:
                marked += self._take_marked(step.name, upstream, pattern)
            else:
                first, *rest = self._find_waiting(step.name, upstream)
                oldest.append(first)
                others += rest
        others.sort(key=lambda each: each.number)
        return marked + oldest + others[: max((most or 0) - len(oldest), 0)]

    def _find_unfinished(self) -> int | None:
        if not self.running:
            return 105
        return 110 if "RUNNING" in self.states.values() else None

    def _end_step(self, step: str, state: str, batches: int) -> int | None:
        if not self.running:
            return 108
        if self.states[step] != "RUNNING":
            return 107
        self.states[step] = state
        self._mark(batches, step)
        return None

    def _mark(self, state: int, step: str | None = None) -> None:
        for each in self.taken:
            if step in (None, each.step):
                each.state = state


PATTERNS = st.sampled_from([None, None, "^EOD", "like:EOD%", ""])
UPSTREAMS = st.dictionaries(st.sampled_from(["a", "b"]), PATTERNS, max_size=2)
SHAPES = st.lists(
    st.tuples(UPSTREAMS, st.sampled_from([True, True, False])), min_size=1, max_size=3
).filter(lambda shape: any(upstreams for upstreams, _ in shape))
STEPS, ROUTES = st.integers(0, 2), st.integers(0, 5)
MARKINGS, MOST = st.sampled_from([EOD, PLAIN]), st.sampled_from([1, 2, 3, None])
ENDS = st.sampled_from(["halt_step", "halt_step", "term_step"])
CALLS = st.one_of(
    st.tuples(st.just("enqueue"), ROUTES, MARKINGS),
    st.tuples(st.just("init_job"), MOST),
    st.tuples(st.just("init_step") | ENDS, STEPS),
    st.tuples(st.sampled_from(["halt_job", "term_job"])),
    st.tuples(st.just("start"), MOST),
    st.tuples(st.just("run"), STEPS, ENDS),
)
TABLES = iter(range(10_000))


def code_of(call, *given_, **fields):
    """Return the result of a call, and the code with which it is refused."""
    try:
        return call(*given_, **fields), None
    except (LifeCycleError, AlreadyRunningError) as error:
        return None, error.code


def expand(calls, count):
    """Replace `start` and `run` by the calls of which they consist.

    `start` gives each route a batch. `run` runs the steps up to one, which it halts or terminates,
    and then the job. `count` is the number of steps.
    """
    for name, *given_ in calls:
        if name == "start":
            yield from (("enqueue", (n, EOD)) for n in range(6))
            yield "init_job", given_
        elif name == "run":
            last, end = min(given_[0], count - 1), given_[1]
            for n in range(last + 1):
                yield "init_step", [n]
                yield (end if n == last else "halt_step"), [n]
            yield ("term_job" if end == "term_step" else "halt_job"), []
        else:
            yield name, given_


class Sides:
    """A process in the run log and in the document, and what both did."""

    def __init__(self, log, shape):
        self.log, self.table = log, f"t{next(TABLES)}"
        names = [f"{n}" for n in range(len(shape))]
        self.document = Document(
            [
                Step(name, {f"{self.table}.{up}": pattern for up, pattern in upstreams.items()}, go)
                for name, (upstreams, go) in zip(names, shape, strict=True)
            ]
        )
        subs = [
            SubProcess(
                step.name,
                tuple(Enqueuer(up, pattern) for up, pattern in step.upstreams.items()),
                can_recover=step.can_recover,
                next=tuple(names[n : n + 1]),
            )
            for n, step in enumerate(self.document.steps, 1)
        ]
        sources = sorted({up for step in self.document.steps for up in step.upstreams})
        self.known = bdre.registry(
            *(bdre.process(source, SubProcess("load")) for source in sources),
            bdre.process(self.table, *subs),
            bdre.process(f"{self.table}.down", SubProcess("load", (Enqueuer(self.table),))),
        )
        self.numbers = iter(range(1, 1000))
        self.target, self.sent = None, []

    def step(self, n):
        return self.document.steps[n % len(self.document.steps)].name

    def enqueue(self, n, marking):
        routes = [(step.name, up) for step in self.document.steps for up in step.upstreams]
        step, source = routes[n % len(routes)]
        number = next(self.numbers)
        marks = {number: marking}
        bdre.fill(self.log, [number], marks, table=self.table, step=step, source=source)
        self.document.enqueue(number, step, source, marking)

    def init_job(self, most):
        number, again = self.document.runs, bool(self.document.taken)
        restart = self.document.find_restart()
        expected = self.document.init_job(most)
        started, code = code_of(bdre.init, self.log, self.known, self.table, most, number=number)
        assert code == expected
        if started is None:
            return
        taken = started.taken
        found = {each.step: (each.min_batch, each.max_batch) for each in taken.intakes}
        assert found == self.document.describe_taken()
        assert taken.target_marking == self.document.merge_markings()
        assert taken.last_recoverable_step == (restart if again else ())
        assert (taken.target_batch_id == self.target) is again
        self.target = taken.target_batch_id

    def call(self, name, *given_):
        """Call a procedure other than `init_job` on both sides."""
        marking = self.document.merge_markings()
        expected = getattr(self.document, name)(*given_)
        made, code = code_of(getattr(bdre, name), self.log, self.known, self.table, *given_)
        assert code == expected, (name, given_)
        if name == "halt_job" and code is None:
            assert made == self.target
            self.sent.append((made, NEW, marking))

    def compare(self):
        queued = [(each.number, each.state) for each in self.document.queue]
        assert sorted(bdre.queue(self.log, self.table)) == sorted(queued)
        archived = [number for number, _ in bdre.archived(self.log, self.table)]
        assert sorted(archived) == sorted(self.document.archived)
        columns = ("source_batch_id", "batch_state", "batch_marking")
        down = bdre.found(self.log, bdre.batch_queue, *columns, job_name=f"{self.table}.down")
        assert down == self.sent


@pytest.mark.sampled
@settings(
    max_examples=examples(25),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(shape=SHAPES, calls=st.lists(CALLS, min_size=5, max_size=15))
def test_random_sequences_of_calls_end_as_documented(log, shape, calls):
    sides = Sides(log, shape)
    for name, given_ in expand(calls, len(shape)):
        if name == "enqueue":
            sides.enqueue(*given_)
        elif name == "init_job":
            sides.init_job(*given_)
        else:
            sides.call(name, *(sides.step(n) for n in given_))
        sides.compare()
