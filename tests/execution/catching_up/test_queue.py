"""Which window a catch-up takes next while others are in work, whatever order they end in."""

from datetime import timedelta

from hypothesis import given
from hypothesis import strategies as st

from logdriven_dagster.execution.catching_up.queue import CatchUpQueue
from logdriven_dagster.execution.events import WindowFailed, WindowSucceeded
from logdriven_dagster.model.attempts import Attempt, Claim, Owner, Status, Trigger
from logdriven_dagster.model.logs import OpenWindow, TableLog
from logdriven_dagster.model.ranges import unite
from logdriven_dagster.planning.plan import PlannedWindow
from tests.builders import at, table

TABLES = {
    "up": table("up"),
    "down": table("down", depends_on=["up"]),
    "whole": table("whole", depends_on=[{"table": "up", "window": "none", "read": "all"}]),
    "free": table("free", ordered=False),
    "urgent": table("urgent", priority=5),
}
NOW = at("2022-01-04 01:00")
DAYS = 3
OWNER = Owner("here", 1, 2)


class Book:
    """The run log as far as a queue asks it."""

    def __init__(self) -> None:
        self.done: list[PlannedWindow] = []
        self.failed: list[PlannedWindow] = []
        self.working: list[PlannedWindow] = []

    def logs(self, _names: object) -> dict[str, TableLog]:
        return {name: self._log(name) for name in TABLES}

    def _log(self, name: str) -> TableLog:
        known = [(self.working, Status.RUNNING), (self.failed, Status.FAILURE)]
        opened = [
            OpenWindow(item.window, 9, status, OWNER)
            for items, status in known
            for item in items
            if item.table == name
        ]
        finished = sorted(
            (item.window for item in self.done if item.table == name), key=lambda w: w.start
        )
        return TableLog(finished=tuple(finished), open=tuple(opened))


def ended(planned: PlannedWindow, *, well: bool) -> WindowSucceeded | WindowFailed:
    claim = Claim(
        planned.table,
        planned.window,
        1440,
        "time_window",
        "p",
        Trigger.PENDING,
        OWNER,
        NOW,
        steps=("load",),
        lease=timedelta(minutes=1),
    )
    attempt = Attempt(1, claim, 1, 1)
    return WindowSucceeded(attempt, (), (), 0.1) if well else WindowFailed(attempt, "load", "x", 0)


@given(st.integers(1, 5), st.lists(st.tuples(st.integers(0, 9), st.booleans()), max_size=30))
def test_every_order_of_endings_keeps_the_order_of_tables_and_loses_nothing(slots, endings):
    book = Book()
    queue = CatchUpQueue(TABLES, book.logs, NOW, list(TABLES), mode=None, backoff=None)
    taken: list[PlannedWindow] = []
    following = iter(endings)
    while True:
        while len(book.working) < slots and (planned := queue.next_ready()):
            assert planned not in taken
            if TABLES[planned.table].ordered:
                assert planned.table not in [item.table for item in book.working]
                older = [d for d in book.done if d.table == planned.table]
                assert len(older) == (planned.window.start - TABLES["up"].grid.origin).days
            if planned.table == "down":
                assert any(d.table == "up" and d.window == planned.window for d in book.done)
            if planned.table == "whole":
                assert "up" not in [item.table for item in book.working]
                read = len([item for item in book.done if item.table == "up"])
                assert read == DAYS or "up" in [item.table for item in book.failed]
            taken.append(planned)
            book.working.append(planned)
            queue.mark_taken(planned, [planned.window])
        if not book.working:
            break
        place, well = next(following, (0, True))
        item = book.working.pop(place % len(book.working))
        (book.done if well else book.failed).append(item)
        queue.record_event(ended(item, well=well))
        known = queue.plan().context.logs
        assert {name: unite(known[name].finished) for name in TABLES} == {
            name: unite(log.finished) for name, log in book.logs(TABLES).items()
        }
    first = {item.table for item in taken[:1]}
    assert first == {"urgent"}
    failed = {item.table for item in book.failed}
    for name in {"up", "whole", "free", "urgent"} - failed:
        assert len([d for d in book.done if d.table == name]) == DAYS
    assert len([item for item in taken if item.table == "free"]) == DAYS


def test_first_successes_are_known_without_reading_the_log():
    book, reads = Book(), []

    def logs(names: list[str]) -> dict[str, TableLog]:
        reads.append(names)
        return book.logs(names)

    queue = CatchUpQueue(TABLES, logs, NOW, ["free", "up"], mode=None, backoff=None)
    done = []
    while len(done) < 2 * DAYS and (planned := queue.next_ready()):
        done.append(planned)
        queue.record_event(ended(planned, well=True))
    assert len(done) == 2 * DAYS
    assert reads == [["free", "up"]]


def test_a_window_that_is_refused_is_looked_at_again_since_the_log_may_have_changed():
    book = Book()
    queue = CatchUpQueue(TABLES, book.logs, NOW, ["urgent"], mode=None, backoff=None)
    first = queue.next_ready()
    assert first
    book.done.append(first)  # by somebody else, which our plan does not know
    assert queue.doubts(first)
    second = queue.next_ready()
    assert second
    assert second.window.start == first.window.end
    assert queue.doubts(second)
    assert queue.next_ready() == second
    assert not queue.doubts(second)
