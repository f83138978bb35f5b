"""An agenda says what a plan made anew would say, whatever has changed since it was made."""

from hypothesis import given
from hypothesis import strategies as st

from logdriven_dagster.model.attempts import Owner, Status
from logdriven_dagster.model.logs import OpenWindow, TableLog
from logdriven_dagster.planning.agenda import Agenda
from logdriven_dagster.planning.plan import PlannedWindow, plan
from tests.builders import at, table

TABLES = {
    "up": table("up"),
    "whole": table("whole", depends_on=[{"table": "up", "read": "all"}]),
    "behind": table("behind", depends_on=[{"table": "whole", "window": "none"}, "up"]),
    "free": table("free", ordered=False, depends_on=["up"]),
    "newest": table("newest", catch_up="latest_only", depends_on=["free"]),
    "week": table("week", period="1 week", depends_on=["up"]),
    "after": table("after", depends_on=[{"table": "up", "condition": "failure"}]),
    "urgent": table("urgent", priority=5, depends_on=["week"]),
}
NOW = at("2022-01-15 01:00")
DAYS = 14
_STATES = (None, "finished", "skipped", Status.RUNNING, Status.FAILURE)
LOGS = st.lists(st.sampled_from(_STATES), min_size=DAYS, max_size=DAYS)
CHANGES = st.lists(
    st.tuples(st.sampled_from(sorted(TABLES)), st.one_of(LOGS, st.none())), max_size=8
)


def log(name: str, states: list[object]) -> TableLog:
    windows = list(map(TABLES[name].grid.window, range(DAYS)))
    of = dict(zip(windows, states, strict=True))
    return TableLog(
        finished=tuple(w for w in windows if of[w] == "finished"),
        skipped=tuple(w for w in windows if of[w] == "skipped"),
        open=tuple(
            OpenWindow(w, 9, of[w], Owner("here", 1, 2))
            for w in windows
            if isinstance(of[w], Status)
        ),
        stale=tuple(w for w in windows[:1] if of[w] == "finished"),
    )


def all_of(agenda: Agenda) -> list[PlannedWindow]:
    """Everything that there is to do, in the order in which it is offered."""
    offered: list[PlannedWindow] = []

    def refused(planned: PlannedWindow) -> bool:
        offered.append(planned)
        return False

    assert agenda.first(lambda _: False, refused) is None
    return offered


@given(st.fixed_dictionaries(dict.fromkeys(TABLES, LOGS)), CHANGES)
def test_after_any_changes_it_equals_a_new_plan(before, changes):
    logs = {name: log(name, states) for name, states in before.items()}
    chosen = list(TABLES)
    agenda = Agenda(plan(TABLES, logs, NOW))
    for name, states in changes:
        if states is None:
            agenda.close(name)
            chosen = [each for each in chosen if each != name]
        else:
            logs[name] = log(name, states)
            agenda.learn({name: logs[name]}, [name])
        anew = plan(TABLES, logs, NOW, chosen)
        assert all_of(agenda) == all_of(agenda) == list(anew.ready())
        assert agenda.plan.tables.keys() == anew.tables.keys()
        first = next(anew.ready(), None)
        assert agenda.first(lambda _: False, lambda _: True) == first


def test_what_is_left_alone_is_offered_again_when_its_table_changes():
    agenda = Agenda(plan(TABLES, {}, NOW, ["up"]))
    (first,) = all_of(agenda)
    assert agenda.first(first.__eq__, lambda _: True) is None
    assert all_of(agenda) == []
    agenda.learn({}, ["up"])
    assert all_of(agenda) == [first]


def test_a_change_is_about_those_that_wait_for_it_and_no_others():
    agenda = Agenda(plan(TABLES, {}, NOW))
    assert agenda.find_affected("week") == {"week", "urgent"}
