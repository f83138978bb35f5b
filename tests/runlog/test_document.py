"""The life cycle agrees with BDRE's document over random sequences of calls.

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
class Document:
    """A parent process with the sub-processes 1 and 2, of which the second consumes batches."""

    pattern: bool
    running: bool = False
    slice: int = 0
    steps: dict[str, str] = field(default_factory=dict)
    queue: dict[int, list[int | str]] = field(default_factory=dict)
    """Batch → its state and marking."""
    taken: list[int] = field(default_factory=list)
    archived: list[int] = field(default_factory=list)

    def enqueue(self, number: int, marking: str) -> None:
        self.queue[number] = [NEW, marking]

    def init_job(self, most: int | None) -> int | None:
        if self.running:
            return 104
        if not self.pattern and most is None:
            return 101
        if not self.taken:
            if not self.queue:
                return 109 if self.pattern else 112
            numbers = sorted(self.queue)
            if self.pattern:
                marked = [number for number in numbers if self.queue[number][1] == EOD]
                if not marked:
                    return 109
                numbers = [number for number in numbers if number <= marked[0]]
            else:
                numbers = numbers[:most]
            self.taken = numbers
        self.running, self.steps = True, {"1": "NOT RUNNING", "2": "NOT RUNNING"}
        self._mark(ACCESSED)
        return None

    def init_step(self, step: str) -> int | None:
        if not self.running:
            return 108
        if self.steps[step] == "RUNNING":
            return 106
        self.steps[step] = "RUNNING"
        if step == "2":
            self._mark(ACCESSED)
        return None

    def halt_step(self, step: str) -> int | None:
        return self._end_step(step, "COMPLETED", PROCESSED)

    def term_step(self, step: str) -> int | None:
        return self._end_step(step, "FAILED", FAILED)

    def halt_job(self) -> int | None:
        if code := self._unfinished():
            return code
        if "FAILED" in self.steps.values():
            return 111
        if self.steps["2"] == "NOT RUNNING":
            return 107  # ours: its batches were not processed
        self.archived += self.taken
        for number in self.taken:
            del self.queue[number]
        self.running, self.taken, self.slice = False, [], self.slice + 1
        return None

    def term_job(self) -> int | None:
        if code := self._unfinished():
            return code
        self.running = False
        self._mark(FAILED)
        return None

    def _unfinished(self) -> int | None:
        if not self.running:
            return 105
        return 110 if "RUNNING" in self.steps.values() else None

    def _end_step(self, step: str, state: str, batches: int) -> int | None:
        if not self.running:
            return 108
        if self.steps[step] != "RUNNING":
            return 107
        self.steps[step] = state
        if step == "2":
            self._mark(batches)
        return None

    def _mark(self, state: int) -> None:
        for number in self.taken:
            self.queue[number][0] = state


STEPS = st.sampled_from(["1", "2"])
CALLS = st.one_of(
    st.tuples(st.just("enqueue"), st.sampled_from([EOD, PLAIN])),
    st.tuples(st.just("init_job"), st.sampled_from([None, 1, 2])),
    st.tuples(st.sampled_from(["init_step", "init_step", "halt_step", "term_step"]), STEPS),
    st.tuples(st.sampled_from(["halt_job", "term_job"])),
)
TABLES = iter(range(10_000))


def code_of(call, *given_, **fields) -> int | None:
    try:
        call(*given_, **fields)
    except (LifeCycleError, AlreadyRunningError) as error:
        return error.code
    return None


@pytest.mark.sampled
@settings(
    max_examples=examples(25),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(pattern=st.booleans(), calls=st.lists(CALLS, min_size=5, max_size=30))
def test_random_sequences_of_calls_end_as_documented(log, pattern, calls):
    table, source = f"t{next(TABLES)}", "up"
    fed = SubProcess("2", (Enqueuer(source, "^EOD" if pattern else None),))
    known = bdre.registry(
        bdre.process(source, SubProcess("load")),
        bdre.process(table, SubProcess("1", next=("2",)), fed),
    )
    document, numbers = Document(pattern), iter(range(1, 100))
    doing = {
        "init_step": bdre.init_step,
        "halt_step": bdre.halt_step,
        "term_step": bdre.term_step,
        "halt_job": bdre.halt_job,
        "term_job": bdre.term_job,
    }
    for name, *given_ in calls:
        if name == "enqueue":
            number, marking = next(numbers), given_[0]
            bdre.fill(log, [number], {number: marking}, table=table, step="2", source=source)
            document.enqueue(number, marking)
            continue
        number = document.slice
        expected = getattr(document, name)(*given_)
        if name == "init_job":
            found = code_of(bdre.init, log, known, table, *given_, number=number)
        else:
            found = code_of(doing[name], log, known, table, *given_)
        assert found == expected, (name, given_)
        queued = [(number, state) for number, (state, _) in document.queue.items()]
        assert sorted(bdre.queue(log, table)) == sorted(queued)
        assert [number for number, _ in bdre.archived(log, table)] == document.archived
